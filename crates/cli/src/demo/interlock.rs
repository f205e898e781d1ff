//! What nobody may do alone, or beyond a bound, whatever the rights: a value out of its range, and a change that a second
//! person has to approve of.

use authority::Second;
use client::Client;
use opcua_types::{StatusCode, Variant};
use tokio::time::Instant;

use super::Trouble;
use super::actors::name;
use super::line::Line;
use super::report::Report;
use super::witness::{PATIENCE, Wanted, Witness};

const INLET: &str = "nsu=urn:trapkey:demo:old;s=Mixer.Valves.Inlet";
const OUTLET: &str = "nsu=urn:trapkey:demo:old;s=Mixer.Valves.Outlet";
/// The second person, and where she approves.
const PETRA: (&str, &str) = ("petra", "urn:trapkey:demo:engineering");
const HMI: &str = "urn:trapkey:demo:hmi";
/// Between two looks at whether something has arrived.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// What a client sees of a write: `allowed` or the status, and what it is told besides.
struct Seen {
    node: String,
    outcome: String,
    told: String,
}

/// Olga, who may operate the old mixer's valves in this step, meets both.
pub(crate) async fn show(
    client: &Client,
    line: &Line,
    (report, witness): (&mut Report, &mut Witness),
) -> Result<(), Trouble> {
    report.head("interlocks at the guard: a bound, and a change that takes two persons");
    let wanted = from_now("denied");
    let seen = write(client, INLET, 150.0).await?;
    let found = denied(witness, wanted, &seen, &seen.told, "value_out_of_range").await?;
    let expected = "Bad_OutOfRange (only 0 to 100 is allowed), audited as value_out_of_range";
    report.check("interlocks", "olga opens the old mixer's inlet to 150 %", expected, &found);

    let wanted = from_now("denied");
    let seen = write(client, OUTLET, 40.0).await?;
    let id = seen.told.strip_prefix("approval ").and_then(|rest| rest.split_once(' ')).map_or("", |(id, _)| id);
    let told = if id.is_empty() { "no approval was named" } else { "an approval is named" };
    let found = denied(witness, wanted, &seen, told, "approval_needed").await?;
    let expected = "Bad_RequestNotAllowed (an approval is named), audited as approval_needed";
    report.check("interlocks", "olga opens its outlet to 40 %, which takes two persons", expected, &found);

    let wanted = Wanted { application: Some(PETRA.1), ..Wanted::from_now(&["approval"], "allowed", PETRA.0) };
    let own = answer(line, ("olga", HMI), id).await?;
    report.check("interlocks", "olga approves of it herself", "refused", &own);
    let known = if answer(line, PETRA, id).await? == "approved" {
        if witness.find(&wanted).await?.is_some() { "approved, audited" } else { "approved, not audited" }
    } else {
        "not approved"
    };
    report.check("interlocks", "petra (process engineer) approves of it by its name", "approved, audited", known);

    let wanted = from_now("allowed");
    let seen = passes(client, id).await?;
    let known = match seen.outcome == "allowed" {
        true if found_in(witness, wanted, &seen).await? => "allowed, audited",
        true => "allowed, not audited",
        false => &seen.outcome,
    };
    report.check("interlocks", "olga does the same again", "allowed, audited", known);

    let wanted = from_now("denied");
    let seen = write(client, OUTLET, 40.0).await?;
    let told =
        if seen.told.contains("approval ") && !seen.told.contains(id) { "another is needed" } else { &seen.told };
    let found = denied(witness, wanted, &seen, told, "approval_needed").await?;
    let expected = "Bad_RequestNotAllowed (another is needed), audited as approval_needed";
    report.check("interlocks", "and once more", expected, &found);
    Ok(())
}

fn from_now(outcome: &'static str) -> Wanted<'static> {
    Wanted { application: Some(HMI), ..Wanted::from_now(&["write"], outcome, "olga") }
}

async fn write(client: &Client, node: &str, value: f64) -> Result<Seen, Trouble> {
    let id = client.node_id(node).await.map_err(|error| Trouble::setup("the old mixer", error))?;
    let id = id.ok_or_else(|| Trouble::setup("the old mixer", "has lost its namespace"))?;
    let seen = |outcome: String, told| Seen { node: id.to_string(), outcome, told };
    Ok(match client.write_and_hear(vec![(id.clone(), Variant::Double(value))]).await {
        Ok(heard) => {
            let (status, told) = heard.into_iter().next().unwrap_or((StatusCode::BadUnexpectedError, None));
            let outcome = if status.is_good() { "allowed".to_owned() } else { name(status) };
            seen(outcome, told.unwrap_or_default())
        }
        Err(error) => seen(error.to_string(), String::new()),
    })
}

/// The status, what is told with it, and what the ledger says.
async fn denied(
    witness: &mut Witness,
    wanted: Wanted<'_>,
    seen: &Seen,
    told: &str,
    reason: &str,
) -> Result<String, Trouble> {
    if seen.outcome == "allowed" {
        return Ok("allowed".to_owned());
    }
    let wanted = Wanted { objects: vec![seen.node.clone()], ..wanted };
    let why = witness.reason(&wanted, reason, true).await?;
    Ok(format!("{} ({told}), audited as {why}", seen.outcome))
}

async fn found_in(witness: &mut Witness, wanted: Wanted<'_>, seen: &Seen) -> Result<bool, Trouble> {
    let wanted = Wanted { objects: vec![seen.node.clone()], ..wanted };
    Ok(witness.find(&wanted).await?.is_some())
}

/// What comes of it when somebody approves: the question is carried to the authority beside the answer to the write, so it
/// is waited for.
async fn answer(line: &Line, (person, application): (&str, &str), id: &str) -> Result<String, Trouble> {
    let second = |person: &str, application: &str| Second {
        person: person.to_owned(),
        application: Some(application.to_owned()),
        address: "127.0.0.1".to_owned(),
    };
    let end = Instant::now() + PATIENCE;
    let petra = second(PETRA.0, PETRA.1);
    while !id.is_empty() && !line.authority.waiting_for(&petra).iter().any(|one| one.id == id) && Instant::now() < end {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(match line.authority.answer_second(id, &second(person, application), true).await {
        Ok(Some(_)) => "approved".to_owned(),
        Ok(None) => "no such change waits".to_owned(),
        Err(authority::AnswerError::Refused(_)) => "refused".to_owned(),
        Err(error) => return Err(Trouble::setup("the approval", error)),
    })
}

/// Tries until the guard has heard that it was approved.
async fn passes(client: &Client, id: &str) -> Result<Seen, Trouble> {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = write(client, OUTLET, 40.0).await?;
        if seen.outcome == "allowed" || !seen.told.contains(id) || Instant::now() >= end {
            return Ok(seen);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
