//! Tiny PDFs, and what the stand-in for the vendor makes of them.

use serde_json::json;

/// What AutoTag leaves in a file: a comment after its end.
const TAGGED: &str = "% tagged\n";

/// A PDF of one page with these lines. The first one is its heading.
pub(crate) fn with_lines(lines: &[String]) -> Vec<u8> {
    let shown: String = lines.iter().map(|line| format!("({line}) Tj T*\n")).collect();
    let content = format!("BT /F1 12 Tf 72 720 Td 14 TL\n{shown}ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    let mut file = "%PDF-1.7\n".to_owned();
    let mut table = "0000000000 65535 f \n".to_owned();
    for (index, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", file.len());
        file += &format!("{} 0 obj\n{object}\nendobj\n", index + 1);
    }
    let (start, size) = (file.len(), objects.len() + 1);
    file += &format!(
        "xref\n0 {size}\n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    );
    file.into_bytes()
}

/// What AutoTag answers with.
pub(crate) fn tag(file: &[u8]) -> Result<Vec<u8>, &'static str> {
    match file.starts_with(b"%PDF-") {
        true => Ok([file, TAGGED.as_bytes()].concat()),
        false => Err("this is not a PDF"),
    }
}

/// What Extract answers with: the elements of a tagged PDF.
pub(crate) fn extract(file: &[u8]) -> Result<Vec<u8>, &'static str> {
    let text = std::str::from_utf8(file).map_err(|_| "this is not one of the example's PDFs")?;
    if !text.ends_with(TAGGED) {
        return Err("this PDF is not tagged");
    }
    let lines = text.lines().filter_map(|line| line.strip_prefix('(')?.strip_suffix(") Tj T*"));
    let elements = lines.enumerate().map(|(index, line)| match (index, line.strip_prefix("Figure: ")) {
        (0, _) => json!({ "Path": "//Document/H1", "Text": line }),
        (_, Some(name)) => {
            json!({ "Path": "//Document/Figure", "filePaths": [format!("figures/{name}.png")] })
        }
        (_, None) => json!({ "Path": "//Document/P", "Text": line }),
    });
    Ok(json!({ "elements": elements.collect::<Vec<_>>() }).to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tagged_files_are_extracted() {
        let file = with_lines(&["Chapter 1".to_owned(), "Figure: map".to_owned()]);
        assert!(extract(&file).is_err());
        let extracted: serde_json::Value =
            serde_json::from_slice(&extract(&tag(&file).unwrap()).unwrap()).unwrap();
        assert_eq!(extracted["elements"][0]["Text"], "Chapter 1");
        assert_eq!(extracted["elements"][1]["filePaths"][0], "figures/map.png");
    }

    #[test]
    fn table_of_objects_names_their_places() {
        let file = String::from_utf8(with_lines(&["Chapter 1".to_owned()])).unwrap();
        let place = |line: &str| line.split(' ').next().unwrap().parse::<usize>().unwrap();
        let places: Vec<usize> = file.lines().filter(|line| line.ends_with(" 00000 n ")).map(place).collect();
        for (index, place) in places.iter().enumerate() {
            assert!(file[*place..].starts_with(&format!("{} 0 obj", index + 1)), "{file}");
        }
        assert_eq!(places.len(), 5);
    }
}
