//! Each format is read back as it was written.

use gspn::formats::{Format, read, write};
use gspn::net::{Arc, Kind, Net, Phase, Place, Rate, Servers, Transition, build};
use proptest::prelude::*;

fn arcs(places: usize) -> impl Strategy<Value = Vec<Arc>> {
    prop::collection::btree_map(0..places, 1_u64..5, 0..3)
        .prop_map(|arcs| arcs.into_iter().map(|(place, count)| Arc { place, count }).collect())
}

/// Some have an exponent where they are written.
fn positive() -> impl Strategy<Value = f64> {
    (1_u32..1000, prop::sample::select(vec![1.0, 1.0, 1e-9, 1e18])).prop_map(|(n, scale)| f64::from(n) / 64.0 * scale)
}

fn servers(any: bool) -> impl Strategy<Value = Servers> {
    let most = if any { 9_u64 } else { 1 };
    prop_oneof![(1..=most).prop_map(Servers::Finite), Just(Servers::Infinite)]
}

fn kinds(format: Format) -> BoxedStrategy<Kind> {
    let timed = (positive(), servers(!matches!(format, Format::Pnml | Format::Pipe)))
        .prop_map(|(rate, servers)| Kind::Timed { rate: Rate::Constant(rate), servers });
    let immediate =
        (positive(), 1_u32..9).prop_map(|(weight, priority)| Kind::Immediate { weight, priority, by: None });
    let fixed = positive().prop_map(|delay| Kind::Deterministic { delay });
    let erlang = (1_u32..9, positive()).prop_map(|(stages, rate)| Kind::Phase(Phase::Erlang { stages, rate }));
    let table = (prop::collection::vec(0_u32..9, 1..4), 1_u64..4).prop_map(|(rates, servers)| Kind::Timed {
        rate: Rate::ByTokens { place: 0, rates: rates.into_iter().map(f64::from).collect() },
        servers: Servers::Finite(servers),
    });
    let coxian =
        (positive(), positive()).prop_map(|(one, other)| Kind::Phase(Phase::Coxian(vec![(one, 0.25), (other, 0.0)])));
    let hyper =
        (positive(), positive()).prop_map(|(one, other)| Kind::Phase(Phase::Hyper(vec![(0.25, one), (0.75, other)])));
    match format {
        Format::Pnml | Format::Pipe => prop_oneof![timed, immediate].boxed(),
        Format::Pnpro => prop_oneof![timed, immediate, fixed, erlang].boxed(),
        _ => prop_oneof![timed, immediate, fixed, erlang, table, coxian, hyper].boxed(),
    }
}

fn nets(format: Format) -> impl Strategy<Value = Net> {
    let name = if format == Format::Pnpro {
        "[A-Za-z_][A-Za-z0-9_]{0,8}"
    } else {
        "[A-Za-z<&>\"'é→;,]([ -~é→]{0,8}[!-~])?"
    };
    // Numbers of PIPE have 32 bits, and its inhibitor arcs no multiplicity.
    let most = if format == Format::Pipe { 2_147_483_647 } else { u64::MAX };
    let tokens = prop::collection::vec(prop_oneof![0_u64..9, Just(most)], 1..5);
    tokens.prop_flat_map(move |tokens| {
        let count = tokens.len();
        let transition = (kinds(format), arcs(count), arcs(count), arcs(count));
        let names = prop::collection::btree_set(name, count + 6);
        (Just(tokens), prop::collection::vec(transition, 0..6), names, Just(count)).prop_map(
            move |(tokens, transitions, names, _)| {
                let mut names = names.into_iter();
                let places = tokens.into_iter().map(|tokens| Place { name: names.next().unwrap(), tokens }).collect();
                let transitions = transitions.into_iter().map(|(mut kind, inputs, outputs, mut inhibitors)| {
                    if format == Format::Pipe {
                        inhibitors.iter_mut().for_each(|arc| arc.count = 1);
                    }
                    if let Kind::Timed { servers, .. } = &mut kind
                        && inputs.is_empty()
                    {
                        *servers = Servers::Finite(1);
                    }
                    if let (Format::Json, Kind::Immediate { by, .. }) = (format, &mut kind) {
                        *by = inputs.get(1).map(|arc| arc.place);
                    }
                    Transition { name: names.next().unwrap(), kind, inputs, outputs, inhibitors }
                });
                build("a net", places, transitions.collect()).unwrap()
            },
        )
    })
}

fn returns(net: &Net, format: Format) {
    let text = write(net, format).unwrap();
    let looks = if format == Format::Pipe { Format::Pnml } else { format };
    assert_eq!(Format::of(text.as_bytes()), Some(looks));
    assert_eq!(&read(text.as_bytes(), format, &[]).unwrap().net, net, "{text}");
}

proptest! {
    #[test]
    fn a_net_returns_from_json(net in nets(Format::Json)) {
        returns(&net, Format::Json);
    }

    #[test]
    fn a_net_returns_from_pnml(net in nets(Format::Pnml)) {
        returns(&net, Format::Pnml);
    }

    #[test]
    fn a_net_returns_from_pipe(net in nets(Format::Pipe)) {
        returns(&net, Format::Pipe);
    }

    #[test]
    fn a_net_returns_from_pnpro(net in nets(Format::Pnpro)) {
        returns(&net, Format::Pnpro);
    }

    #[test]
    fn every_net_can_be_drawn(net in nets(Format::Json)) {
        let svg = write(&net, Format::Svg).unwrap();
        prop_assert!(roxmltree::Document::parse(&svg).is_ok(), "{}", svg);
        let _dot = write(&net, Format::Dot).unwrap();
    }
}
