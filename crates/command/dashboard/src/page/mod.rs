//! The shell of the pages and their assets. There is no data in them: pages ask for it with their token.

use maud::{DOCTYPE, html};

/// Something that every client may read.
pub(crate) struct Asset {
    pub(crate) media_type: &'static str,
    pub(crate) body: String,
}

/// What stands at a path.
pub(crate) fn find(path: &str) -> Option<Asset> {
    let asset = |media_type, body: &str| Some(Asset { media_type, body: body.to_owned() });
    match path {
        "/" => Some(Asset { media_type: "text/html; charset=utf-8", body: shell() }),
        "/assets/dashboard.js" => {
            asset("text/javascript; charset=utf-8", include_str!("../../assets/dashboard.js"))
        }
        "/assets/dashboard.css" => {
            asset("text/css; charset=utf-8", include_str!("../../assets/dashboard.css"))
        }
        _ => None,
    }
}

fn shell() -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Tollway" }
                link rel="stylesheet" href="/assets/dashboard.css";
                script src="/assets/dashboard.js" defer {}
            }
            body { main id="main" {} }
        }
    };
    page.into_string()
}
