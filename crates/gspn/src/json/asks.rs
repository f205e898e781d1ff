//! The member `ask`.

use hashbrown::{HashMap, HashSet};

use super::member::{self, Members};
use super::tree::Tree;
use crate::Refusal;
use crate::ask::{Ask, Compare, Condition, Question};
use crate::net::{Kind, Net, Rate};

/// Where the names of a net stand.
struct Names<'a> {
    net: &'a Net,
    places: HashMap<&'a str, usize>,
    transitions: HashMap<&'a str, usize>,
}

/// Reads the questions of a document.
pub(super) fn read(tree: Tree<'_>, net: &Net) -> Result<Vec<Ask>, Refusal> {
    let places = net.places().iter().enumerate().map(|(index, place)| (place.name.as_str(), index)).collect();
    let transitions = net.transitions().iter().enumerate().map(|(index, it)| (it.name.as_str(), index)).collect();
    let net = &Names { net, places, transitions };
    let (mut asks, mut ids) = (Vec::new(), HashSet::new());
    for (index, tree) in member::list(tree, "ask", "ask")?.into_iter().enumerate() {
        let mut members = Members::of(tree, &format!("ask[{index}]"))?;
        let id = members.text("id")?.into_owned();
        members.call(&id);
        let question = question(&mut members, net)?;
        members.end()?;
        if !ids.insert(id.clone()) {
            return Err(Refusal::invalid(&id, "two questions have this id: give each its own"));
        }
        asks.push(Ask { id, question });
    }
    Ok(asks)
}

fn question(members: &mut Members<'_>, net: &Names<'_>) -> Result<Question, Refusal> {
    let kind = members.text("kind")?;
    Ok(match &*kind {
        "tangible" => Question::Tangible,
        "vanishing" => Question::Vanishing,
        "deadlocks" => Question::Deadlocks,
        "bsccs" => Question::BottomComponents,
        "bound" => Question::Bound { place: place(members, net)? },
        "mean_tokens" => Question::MeanTokens { place: place(members, net)?, at: at(members)? },
        "prob" => Question::Probability { condition: condition(members, net)?, at: at(members)? },
        "throughput" => Question::Throughput { transition: transition(members, "transition", net)?, at: at(members)? },
        "initial_prob" => Question::InitialProbability { condition: condition(members, net)? },
        "mtta" => Question::TimeToAbsorption,
        "passage_mean" => Question::PassageMean { condition: condition(members, net)? },
        "passage_quantile" => {
            let condition = condition(members, net)?;
            let level = members.need_number("p")?;
            if !(level > 0.0 && level < 1.0) {
                return Err(members.wrong(format!("`p` is {level}: between 0 and 1")));
            }
            Question::PassageQuantile { condition, level }
        }
        "sensitivity" => sensitivity(members, net)?,
        other => return Err(members.wrong(format!("`kind` is `{other}`, and there is no such question"))),
    })
}

fn sensitivity(members: &mut Members<'_>, net: &Names<'_>) -> Result<Question, Refusal> {
    let path = members.path().to_owned();
    let mut inner = Members::of(members.need("of")?, &path)?;
    let of = question(&mut inner, net)?;
    inner.end()?;
    if matches!(of, Question::Sensitivity { .. }) {
        return Err(members.wrong("a sensitivity of a sensitivity is not a question here".to_owned()));
    }
    let by = transition(members, "wrt", net)?;
    match &net.net.transitions()[by].kind {
        Kind::Timed { rate: Rate::Constant(_), .. } => Ok(Question::Sensitivity { of: Box::new(of), by }),
        _ => Err(members.wrong("`wrt` names a transition without `rate`".to_owned())),
    }
}

fn place(members: &mut Members<'_>, net: &Names<'_>) -> Result<usize, Refusal> {
    let name = members.text("place")?;
    net.places.get(&*name).copied().ok_or_else(|| members.wrong(format!("there is no place `{name}`")))
}

fn transition(members: &mut Members<'_>, key: &str, net: &Names<'_>) -> Result<usize, Refusal> {
    let name = members.text(key)?;
    net.transitions.get(&*name).copied().ok_or_else(|| members.wrong(format!("there is no transition `{name}`")))
}

fn at(members: &mut Members<'_>) -> Result<Option<f64>, Refusal> {
    match members.number("at")? {
        Some(at) if at < 0.0 => Err(members.wrong(format!("`at` is {at}: not below 0"))),
        other => Ok(other),
    }
}

fn condition(members: &mut Members<'_>, net: &Names<'_>) -> Result<Condition, Refusal> {
    let mut terms = Vec::new();
    for term in members.list("where")? {
        let parts = member::list(term, "where", members.path())?;
        let [Tree::Text(name), Tree::Text(op), count] = parts.as_slice() else {
            return Err(members.wrong("`where` is a list of [place, operator, number]".to_owned()));
        };
        let place =
            net.places.get(&**name).copied().ok_or_else(|| members.wrong(format!("there is no place `{name}`")))?;
        let compare = match &**op {
            "==" => Compare::Equal,
            "!=" => Compare::NotEqual,
            "<" => Compare::Less,
            "<=" => Compare::LessOrEqual,
            ">" => Compare::Greater,
            ">=" => Compare::GreaterOrEqual,
            other => return Err(members.wrong(format!("`{other}` does not compare: one of == != < <= > >="))),
        };
        terms.push((place, compare, member::whole(count, "where", members.path())?));
    }
    Ok(Condition { terms })
}
