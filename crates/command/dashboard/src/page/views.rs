//! The other views, as templates that their scripts fill.

use maud::{Markup, html};

/// The states that jobs are in, as the filter offers them.
const STATES: [&str; 6] = ["ready", "running", "delayed", "held", "done", "dead"];

pub(super) fn templates() -> Markup {
    html! {
        (policy())
        (apis())
        (pipelines())
        (jobs())
        (consumers())
        (incidents())
    }
}

fn policy() -> Markup {
    html! {
        template #policy-view {
            div {
                p.path { a href="./" { "Limits" } " /" }
                h1 { span data-part="name" {} " " span data-part="chips" {} }
                table.meters.of-policy role="table" {
                    caption.hidden { "Limits of this policy" }
                    thead {
                        tr {
                            th scope="col" { "Limit" } th scope="col" { "Used" } th.number scope="col" { "Resets in" } th scope="col" { "Last 5 min" }
                            th.number scope="col" { "Waiting" } th.number scope="col" { "Next call in" } th.number scope="col" { "Denied" }
                        }
                    }
                    tbody role="rowgroup" data-part="rows" {}
                }
                p.note data-part="shadow" hidden {}
                section {
                    div.heading {
                        h2 { "Usage" }
                        p.choice { a data-part="hour" { "Hour" } a data-part="day" { "Day" } }
                    }
                    div.charts data-part="charts" {}
                    p.note data-part="known" {}
                }
                div.halves {
                    section {
                        h2 { "Change" }
                        ul.actions-list data-part="actions" {}
                        p.actions { button.danger type="button" data-part="reset" { "Reset usage" } }
                    }
                    section { h2 { "In words" } div.text data-part="text" {} }
                }
                section { h2 { "Who uses most" } div data-part="subjects" {} }
                section { h2 { "Changes" } div data-part="changes" {} }
            }
        }
    }
}

fn apis() -> Markup {
    html! {
        template #apis-view {
            div {
                h1 { "APIs" }
                p.empty data-part="none" hidden { "The config has no " code { "[apis]" } "." }
                div.scroll role="region" aria-label="APIs of vendors" tabindex="0" data-part="table" hidden {
                    table {
                        caption.hidden { "APIs of vendors" }
                        thead {
                            tr {
                                th scope="col" { "API" } th scope="col" { "Policy" } th.number scope="col" { "Calls a second" } th.number scope="col" { "Ceiling" }
                                th.number scope="col" { "Held for" } th.number scope="col" title="429s of the vendor, in five minutes" { "Refused by the vendor" }
                                th.number scope="col" title="denied by our limits, in five minutes" { "Denied by us" }
                            }
                        }
                        tbody data-part="rows" {}
                    }
                }
                section data-part="one" hidden {
                    h2 data-part="name" {}
                    div data-part="chart" {}
                    h3 { "Whose 429 was it?" }
                    div data-part="refusals" {}
                }
            }
        }
    }
}

fn pipelines() -> Markup {
    html! {
        template #pipelines-view {
            div {
                p.path data-part="path" { a href="?page=pipelines" { "Pipelines" } " /" }
                h1 data-part="title" { "Pipelines" }
                p.empty data-part="none" hidden {}
                div data-part="list" {}
                div data-part="more" {}
            }
        }
    }
}

fn jobs() -> Markup {
    html! {
        template #jobs-view {
            div {
                p.path { a href="?page=pipelines" { "Pipelines" } " / " a data-part="pipeline" {} " /" }
                div.heading {
                    h1 data-part="title" {}
                    p.choice { a data-part="toJobs" { "Jobs" } a data-part="toDead" { "Dead letters" } }
                }
                form.filter data-part="filter" hidden {
                    label { "Stage " input name="stage" size="12" autocomplete="off"; }
                    label { "State "
                        select name="state" { option value="" { "any" } @for state in STATES { option value=(state) { (state) } } }
                    }
                    label { "Group " input name="group" size="12" autocomplete="off"; }
                    label { "Error " input name="error" placeholder="part of it" autocomplete="off"; }
                    label { "Number or key " input type="search" name="search" placeholder="Search ( / )" autocomplete="off" spellcheck="false"; }
                    button type="submit" { "Filter" }
                }
                div data-part="shown" {}
            }
        }
    }
}

fn consumers() -> Markup {
    html! {
        template #consumers-view {
            div {
                h1 { "Consumers" }
                form.filter data-part="form" {
                    label { "Consumer " input type="search" data-part="search" placeholder="Id ( / )" required autocomplete="off" spellcheck="false"; }
                    button type="submit" { "Show" }
                }
                div.note data-part="status" {}
                section data-part="one" hidden {
                    h2 { span data-part="name" {} " " span.chip.stopped data-part="blocked" hidden { "blocked" } }
                    h3 { "Counters" }
                    div data-part="usage" {}
                    p.actions { button.danger type="button" data-part="reset" { "Reset the counters" } }
                    div.heading {
                        h3 { "Limits in the hour" }
                        label { span.hidden { "Hour, in UTC" } input type="datetime-local" step="3600" data-part="hour"; } " UTC"
                    }
                    div data-part="limits" {}
                    h3 { "Records" }
                    div data-part="records" {}
                    p.note { "Records are changed through the API: " code { "/v1/consumers/{id}/records" } "." }
                }
            }
        }
    }
}

fn incidents() -> Markup {
    html! {
        template #incidents-view {
            div {
                h1 { "Alarms and incidents" }
                section data-part="one" hidden { h2 { "Incident" } div data-part="incident" {} }
                section {
                    h2 { "Alarms" }
                    p.empty data-part="noAlarms" hidden { "No alarm in the last time." }
                    ul.plain data-part="alarms" {}
                }
                section {
                    h2 { "Incidents" }
                    p.note { "A vendor refused a call although it was within the limit." }
                    div data-part="list" {}
                }
            }
        }
    }
}
