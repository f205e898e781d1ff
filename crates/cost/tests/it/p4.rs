//! The bounds within which the paper's tables come out.

use gspn::{Budget, Limits};

#[test]
fn the_tables_of_the_paper_come_out() {
    let mut go_on = |_| true;
    let all = cost::reproduce::p4(&mut Budget::new(Limits::default(), &mut go_on)).unwrap();
    assert_eq!(all.rows.len(), 12);
    for row in &all.rows {
        assert!(row.off.abs() <= 0.3, "table {}, platform {}, {}: {} %", row.table, row.platform, row.key, row.off);
    }
    assert_eq!((all.count.fitted, all.count.predicted), (8, 4));
    for row in &all.degradations {
        let off = row.value - row.printed;
        assert!(off.abs() <= 0.02, "platform {}, {}: {off} points", row.platform, row.key);
        assert!((row.unrounded - row.value).abs() < 0.3, "{row:?}");
    }
    // The printed rows of each platform allow one common sum, and it is the one that is known.
    let known = [(1, 233.80, 234.64), (2, 181.70, 182.31)];
    for ((platform, low, high), fit) in known.into_iter().zip(&all.fitted) {
        assert_eq!(fit.platform, platform);
        assert!((fit.interval.0 - low).abs() < 0.01 && (fit.interval.1 - high).abs() < 0.01, "{:?}", fit.interval);
        assert!(low <= fit.added && fit.added <= high, "{}", fit.added);
    }
    // The paper's own errors: over the model as printed (4.08 at most), never the other way round.
    let worst = all.rows.iter().map(|row| row.error_of_model).fold(0.0, f64::max);
    assert!((worst - 4.08).abs() < 0.01, "{worst}");
    assert!(all.rows.iter().all(|row| row.error_of_measurement > 0.0));
    for row in &all.measured {
        assert!(row.off.abs() < 2.0, "{row:?}");
    }
}

#[test]
fn the_knees_of_figure_seven_depend_on_an_unprinted_room() {
    let mut go_on = |_| true;
    let figure = cost::reproduce::p4(&mut Budget::new(Limits::default(), &mut go_on)).unwrap().figure;
    // M/M/1/K: by hand, with the last integer below visibly lower.
    assert_eq!(figure.knees[0].rooms, [25, 26, 27, 28]);
    assert_eq!(figure.knees[0].rooms_of_one_stage, [25, 26, 27, 28]);
    assert_eq!(figure.knees[1].rooms_of_one_stage, [9, 10]);
    // What SC2 adds is a stage of its own: the scenario varies less, and less room is enough.
    assert_eq!(figure.knees[1].rooms, [7, 8]);
    // A queue of one stage is known in closed form.
    let mu = 17.45;
    for curve in figure.curves.iter().filter(|curve| curve.configuration == "SC1") {
        for (rate, value) in &curve.points {
            let rho = f64::from(*rate) / mu;
            let room = i32::try_from(curve.room).unwrap();
            let empty = (1.0 - rho) / (1.0 - rho.powi(room + 1));
            let wanted = mu * (1.0 - empty);
            assert!((value / wanted - 1.0).abs() < 1e-9, "room {room}, {rate}: {value} for {wanted}");
        }
    }
    let svg = figure.svg();
    assert_eq!(svg.matches("<polyline").count(), 12);
    assert_eq!(svg.matches("<circle").count(), 2);
}
