//! The document around the views: navigation, connection, dialogs. Views are templates, which the script fills.

use maud::{DOCTYPE, Markup, html};

use super::{limits, views};

/// The scripts of the first screen. The browser asks for all of them at once.
const FIRST_SCRIPTS: [&str; 9] =
    ["chart", "dom", "format", "limits", "live", "route", "rows", "stream", "token"];

/// The pages of the navigation: the value of `page` in the address, the name, and the key.
const PAGES: [(&str, &str, &str); 5] = [
    ("limits", "Limits", "l"),
    ("apis", "APIs", "a"),
    ("pipelines", "Pipelines", "p"),
    ("consumers", "Consumers", "c"),
    ("incidents", "Incidents", "i"),
];

const KEYS: [(&str, &str); 5] = [
    ("/", "search"),
    ("t", "theme: light, dark, or that of the system"),
    ("r", "read everything again"),
    ("Esc", "leave a field, close a dialog"),
    ("?", "this list"),
];

/// The line of the config that makes a token.
pub(super) const TOKEN_LINE: &str = "[server.tokens]\nwrite = \"env:TOLLWAY_WRITE_TOKEN\"";

pub(super) fn document(build: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(build))
            body {
                a.skip href="#main" { "Skip to the figures" }
                (header())
                (notices())
                main #main tabindex="-1" {
                    noscript { p.empty { "This page needs JavaScript. " code { "tollway top" } " shows the same in a terminal." } }
                }
                p #said role="status" {}
                (change_dialog())
                (keys_dialog())
                (token_templates())
                (limits::template())
                (views::templates())
            }
        }
    }
}

fn head(build: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            meta name="robots" content="noindex";
            meta name="tollway-build" content=(build);
            title { "Tollway" }
            link rel="icon" type="image/svg+xml" href="assets/icon.svg";
            link rel="stylesheet" href="assets/tollway.css";
            script src="assets/theme.js" {}
            @for name in FIRST_SCRIPTS { link rel="modulepreload" href={ "assets/" (name) ".js" }; }
            script type="module" src="assets/tollway.js" {}
        }
    }
}

fn header() -> Markup {
    html! {
        header {
            a.brand href="./" { img src="assets/icon.svg" width="24" height="24" alt=""; "Tollway" }
            nav aria-label="Pages" {
                @for (page, name, _) in PAGES {
                    a data-page=(page) href={ @if page == "limits" { "./" } @else { "?page=" (page) } } { (name) span.badge {} }
                }
            }
            p.about {
                span #process {}
                " "
                span #link data-state="connecting" { "connecting" }
            }
            p.tools {
                button type="button" data-ask-token { "Token" }
                button #theme type="button" { "Auto" }
                button #keys type="button" aria-label="Keys" title="Keys" { "?" }
            }
        }
    }
}

/// What stands in the way: the server is away, or refuses the token.
fn notices() -> Markup {
    html! {
        div.notices role="alert" {
            p #away hidden { b #away-since {} " " span #away-next aria-hidden="true" {} " " button #retry type="button" { "Try now" } }
            p #store-away hidden {}
            div #locked hidden {
                b #locked-why {}
                " "
                button type="button" data-ask-token { "Give a token" }
            }
        }
    }
}

fn change_dialog() -> Markup {
    html! {
        dialog #dialog aria-labelledby="dialog-title" {
            form {
                h2 #dialog-title data-part="title" {}
                div data-part="body" {}
                div.fields data-part="fields" {}
                p.error role="alert" data-part="error" {}
                p.actions {
                    button type="button" data-part="cancel" { "Cancel" }
                    button.primary type="submit" data-part="action" { "Change" }
                }
            }
        }
    }
}

fn keys_dialog() -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            form method="dialog" {
                h2 #help-title { "Keys" }
                dl.keys {
                    @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } }
                    @for (_, name, key) in PAGES { dt { kbd { (key) } } dd { (name) } }
                }
                label.check { input #keys-on type="checkbox"; " Keys are on" }
                p.actions { button.primary { "Close" } }
            }
        }
    }
}

/// How one gets a token.
fn token_templates() -> Markup {
    let how = html! {
        p { "These lines of " code { "tollway.toml" } " make one that may change things; " code { "read = " } " makes one that may only look:" }
        pre { (TOKEN_LINE) }
        p { "The variable has at least 16 characters, as of " code { "openssl rand -hex 32" } "." }
    };
    html! {
        template #token-help {
            p { "It is kept in this tab until the tab is closed, and sent to this server only." }
            (how)
        }
        template #needs-token {
            div.locked {
                p { b data-part="what" {} " " button type="button" data-part="use" { "Give a token" } }
                details { summary { "Where a token comes from" } (how) p { "The link that " code { "tollway serve" } " and " code { "tollway demo" } " print in a terminal has one, too." } }
            }
        }
    }
}
