//! A guard tells hidden nodes from missing ones by nothing that can be counted. What is left, time, is measured:
//! `cargo run --release -p bench -- guard.oracle`.

use testkit::oracle::{Asked, Asker, Question};

/// Everything that can be counted of one question.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    answer: Vec<u8>,
    /// Requests to the server behind, without what differs from one to the next in any case.
    reached: Vec<Vec<u8>>,
    records: usize,
}

fn ask(asker: &mut Asker, question: Question, asked: Asked, which: u32) -> Told {
    let request = asker.prepare(question, asked, which);
    asker.reached();
    let before = asker.records();
    let answer = asker.exchange(&request);
    Told { answer, reached: asker.reached().into_iter().map(bare).collect(), records: asker.records() - before }
}

/// A request without its handle, which counts: type, authentication token and timestamp stand before it.
fn bare(mut body: Vec<u8>) -> Vec<u8> {
    // A NodeId of four bytes for the type; one with a namespace, a ByteString or number for the token.
    let token = match body[4] {
        0 => 2,
        1 => 4,
        2 => 7,
        3 | 5 => 7 + u32::from_le_bytes(body[7..11].try_into().unwrap()) as usize,
        kind => panic!("no authentication token begins with {kind}"),
    };
    let handle = 4 + token + 8;
    body.drain(handle..handle + 4);
    body
}

#[test]
fn hidden_and_missing_nodes_cost_the_same_and_are_answered_alike() {
    let mut asker = Asker::new();
    for question in Question::ALL {
        // Whatever is learned once, such as what a name leads to, is learned now.
        for which in [0, 1] {
            for asked in [Asked::Hidden, Asked::Missing] {
                ask(&mut asker, question, asked, which);
            }
        }
        for round in 0..20 {
            let which = round % 2;
            let hidden = ask(&mut asker, question, Asked::Hidden, which);
            let missing = ask(&mut asker, question, Asked::Missing, which);
            assert_eq!(hidden.answer, missing.answer, "{question:?}: the answer");
            let sizes = |told: &Told| told.reached.iter().map(Vec::len).collect::<Vec<_>>();
            assert_eq!(sizes(&hidden), sizes(&missing), "{question:?}: requests to the server, and their sizes");
            assert!(!hidden.reached.is_empty(), "{question:?}: the server is asked, as it is for what is visible");
            assert_eq!(hidden.reached, missing.reached, "{question:?}: what it is asked");
            assert_eq!(hidden.records, missing.records, "{question:?}: records");
        }
        let (seen, hidden) =
            (ask(&mut asker, question, Asked::Visible, 0), ask(&mut asker, question, Asked::Hidden, 0));
        assert_ne!(seen.answer, hidden.answer, "{question:?}: a difference would be noticed");
        if question != Question::TranslateTo {
            // What a path is looking for the server is not asked at all.
            assert_ne!(seen.reached, hidden.reached, "{question:?}: a difference would be noticed");
        }
    }
}

/// The first question about a node costs as much as well, whatever was asked before.
#[test]
fn the_first_question_about_a_node_costs_no_more_for_hidden_ones() {
    for question in Question::ALL {
        let first = |asked| {
            let mut asker = Asker::new();
            ask(&mut asker, question, Asked::Visible, 0);
            let told = ask(&mut asker, question, asked, 1);
            (told.answer, told.reached.iter().map(Vec::len).collect::<Vec<_>>(), told.records)
        };
        assert_eq!(first(Asked::Hidden), first(Asked::Missing), "{question:?}");
    }
}
