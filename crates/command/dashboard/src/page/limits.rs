//! The first screen: one sentence, the table of limits, and the rest at a glance.

use maud::{Markup, html};

pub(super) fn template() -> Markup {
    html! {
        template #limits-view {
            div.first-screen {
                h1.hidden { "Limits" }
                p.sentence {
                    span.level data-part="level" {}
                    span data-part="sentence" { "Waiting for the first figures." }
                }
                p.hidden aria-live="polite" data-part="spoken" {}
                (totals())
                div.columns {
                    section.limits aria-labelledby="limits-title" { (limits()) }
                    div.glance { (glance()) }
                }
            }
        }
    }
}

fn totals() -> Markup {
    html! {
        dl.totals {
            div { dt { "granted a second" } dd data-part="granted_per_second" { "–" } }
            div { dt { "denied a second" } dd data-part="denied_per_second" { "–" } }
            div { dt { "waiting" } dd data-part="waiting" { "–" } }
            div { dt { "policies in use" } dd { span data-part="policies_used" { "–" } " of " span data-part="policies" { "–" } } }
            div { dt { "known since" } dd data-part="since" { "–" } }
        }
    }
}

fn limits() -> Markup {
    html! {
        div.heading {
            h2 #limits-title { "Limits" }
            input type="search" data-part="search" placeholder="Search ( / )" aria-label="Search limits" autocomplete="off" spellcheck="false";
            select data-part="only" aria-label="Which limits" {
                option value="" { "All" }
                option value="full" { "Used up" }
                option value="waiting" { "With callers waiting" }
                option value="denied" { "With denials" }
            }
        }
        table.meters role="table" data-part="table" hidden {
            caption.hidden { "Limits, the nearest to full first" }
            thead {
                tr {
                    th scope="col" { "Limit" }
                    th scope="col" { "Used" }
                    th.number scope="col" { "Resets in" }
                    th scope="col" { "Last 5 min" }
                    th.number scope="col" title="callers that wait in this process" { "Waiting" }
                    th.number scope="col" title="what a new caller would wait" { "Next call in" }
                    th.number scope="col" title="denied takes of the last five minutes" { "Denied" }
                }
            }
            tbody role="rowgroup" data-part="rows" {}
        }
        p.empty data-part="none" hidden {}
        p.note { span data-part="approximate" hidden { "≈ as seen by this process. " } span data-part="more" {} }
    }
}

fn glance() -> Markup {
    html! {
        section data-part="pipelines" aria-labelledby="pipelines-title" hidden {
            h2 #pipelines-title { a href="?page=pipelines" { "Pipelines" } }
            ul.plain data-part="pipelineList" {}
        }
        section data-part="apis" aria-labelledby="apis-title" hidden {
            h2 #apis-title { a href="?page=apis" { "APIs" } }
            table {
                caption.hidden { "APIs, those with refusals first" }
                thead { tr { th scope="col" { "API" } th.number scope="col" { "Calls a second" } th.number scope="col" { "Refused 5 min" } } }
                tbody data-part="apiRows" {}
            }
        }
        section aria-labelledby="alarms-title" {
            h2 #alarms-title { a href="?page=incidents" { "Alarms and incidents" } }
            p.empty data-part="noAlarms" { "No alarm." }
            ul.plain data-part="alarmList" {}
            p.note { a href="?page=incidents" data-part="incidents" {} }
        }
    }
}
