//! One table of histograms: what serves, why nothing does, and which of a family.

use cajeta::route::{Clause, Declared, Origin, Preference, Preferred, Route, RouteTable};

use crate::histogram::*;

const ALL: [cajeta_abi::Capability; 2] = [SHARED_ATOMICS, WIDE_ATOMICS];

fn build(bins: u64, features: u64, data: &[u8]) -> Build<'_> {
    Build { query: binning(bins, features), data, slab_slots: 0 }
}

#[test]
fn the_first_admitted_row_serves_and_computes() {
    let table = table(variants());
    let (able, plain) = (Can(ALL.to_vec()), Can(Vec::new()));
    let data: Vec<u8> = (0..=255).map(|value| value % 8).collect();
    let serves = |device: &Can, call: &Build<'_>| {
        let picked = table.pick(call, device, &Declared).expect("one serves");
        assert_eq!(picked.origin, Origin::Declared);
        assert_eq!(picked.route.dispatch(call), vec![32; 8]);
        picked.route.name().to_owned()
    };
    assert_eq!(serves(&able, &build(8, 8, &data)), "histShared");
    assert_eq!(serves(&able, &build(8, 7, &data)), "histGlobal");
    assert_eq!(serves(&plain, &build(8, 8, &data)), "histGlobal");
    assert_eq!(serves(&plain, &Build { slab_slots: 4, ..build(8, 8, &data) }), "histSlab");
    // With nothing bound the slab is not asked about.
    let unbound = table.admissible(&binning(8, 8), &plain).expect("one serves");
    assert_eq!(unbound.name(), "histSlab");
    let mut candidates = Vec::new();
    table.candidates(&binning(8, 8), &able, &mut candidates);
    let names: Vec<&str> = candidates.iter().map(|route| route.name()).collect();
    assert_eq!(names, ["histShared", "histSlab", "histGlobal"]);
}

#[test]
fn a_refusal_is_of_the_row_that_got_furthest() {
    let device = Can(vec![SHARED_ATOMICS]);
    let only = |names: &[&str]| {
        table(variants().into_iter().filter(|variant| names.contains(&variant.name.as_str())).collect())
    };
    let why = |names: &[&str], query: Binning| {
        let call = Build { query, data: &[], slab_slots: 0 };
        let refusal = only(names).why_not_picked(&call, &device, &Declared).expect("nothing serves");
        assert_eq!((refusal.regime, refusal.format), (query.regime, query.format));
        assert!(refusal.to_string().contains(&query.describe()), "{refusal}");
        (refusal.clause, refusal.row, refusal.gate, refusal.need)
    };
    use cajeta::route::RouteQuery;
    let said = |clause, row: &str, gate: &str, need| (clause, row.to_owned(), gate.to_owned(), need);
    let all = ["histShared", "histSlab", "histGlobalU16", "histSubtract"];
    assert_eq!(why(&all, binning(8, 8)), said(Clause::Ready, "histSlab", "slab bound", None));
    assert_eq!(
        why(&["histShared", "histSubtract"], binning(8, 8)),
        said(Clause::Unsupported, "histShared", "wide atomics", Some(1))
    );
    assert_eq!(
        why(&["histShared", "histSubtract"], binning(8, 7)),
        said(Clause::Shape, "histShared", "features aligned", None)
    );
    assert_eq!(
        why(&["histGlobalU16", "histSubtract"], binning(8, 8)),
        said(Clause::Regime, "histSubtract", "serves regime 901", None)
    );
    assert_eq!(
        why(&["histGlobalU16"], binning(8, 8)),
        said(Clause::Format, "histGlobalU16", "serves format 7002", None)
    );
    assert_eq!(why(&[], binning(8, 8)), said(Clause::Empty, "", "", None));
    // Where something serves there is nothing to say.
    assert_eq!(table(variants()).why_not_admissible(&binning(8, 8), &device), None);
}

#[test]
fn a_kernel_the_device_cannot_use_is_as_good_as_absent() {
    let table = table(vec![variant("defective", 9), variant("sound", 0)]);
    let call = build(8, 8, &[]);
    let picked = table.pick(&call, &Can(Vec::new()), &Declared).expect("the other serves");
    assert_eq!(picked.route.name(), "sound");
    let defective = &table.routes()[0];
    let refusal = table.refusal(defective, &call, &Can(Vec::new()), &Declared).expect("refused");
    assert_eq!((refusal.clause, refusal.gate.as_str()), (Clause::Unsupported, "a recorded defect"));
    let values = table.gate_values(defective, &call, &Can(Vec::new()));
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    assert_eq!(values, ["usable: a recorded defect (refuses)", "bins fit: 8"]);
}

/// Measured: the slower-declared member of the family is the faster one.
struct Measured(&'static str);

impl Preference<Build<'_>> for Measured {
    fn prefer<'s>(&'s self, family: &str, call: &Build<'_>) -> Option<Preferred<'s>> {
        (family == "tile" && call.query.bins == 8)
            .then_some(Preferred { row: self.0, origin: Origin::Measured })
    }
    fn held_back<'s>(&'s self, row: &str, _call: &Build<'_>) -> Option<&'s str> {
        row.starts_with("histLoses").then_some("pays")
    }
    fn refused<'s>(&'s self, row: &str, _call: &Build<'_>) -> Option<&'s str> {
        (row == "histWrong").then_some("differs")
    }
}

#[test]
fn measurement_chooses_within_the_family_that_comes_first() {
    let tile =
        |name: &str, priority, max_bins| Variant { family: "tile", max_bins, ..variant(name, priority) };
    let table = table(vec![
        variant("histLoses", 9),
        tile("tile128", 3, 256),
        tile("tile64", 2, 256),
        tile("tile32", 1, 4),
        variant("floor", 0),
    ]);
    let device = Can(Vec::new());
    let picked = |preferred, bins| {
        let call = build(bins, 8, &[]);
        let picked = table.pick(&call, &device, &Measured(preferred)).expect("one serves");
        (picked.route.name().to_owned(), picked.origin)
    };
    assert_eq!(picked("tile64", 8), ("tile64".into(), Origin::Measured));
    assert_eq!(picked("tile64", 16), ("tile128".into(), Origin::Declared), "nothing is known of 16 bins");
    assert_eq!(picked("tile32", 8), ("tile128".into(), Origin::Declared), "it is not admitted");
    assert_eq!(picked("floor", 8), ("tile128".into(), Origin::Declared), "it is of no such family");
    let refused = table.refusal(&table.routes()[0], &build(8, 8, &[]), &device, &Measured("tile64"));
    let refused = refused.expect("measured against");
    assert_eq!((refused.clause, refused.gate.as_str()), (Clause::Ready, "pays"));
}

#[test]
fn what_is_held_back_serves_where_nothing_else_is_admitted_and_what_is_wrong_never_does() {
    let (device, call, measured) = (Can(Vec::new()), build(8, 8, &[]), Measured("tile64"));
    let picked = |rows: Vec<Variant>| {
        let table = table(rows);
        let picked = table.pick(&call, &device, &measured).map(|picked| picked.route.name().to_owned());
        picked.ok_or_else(|| table.why_not_picked(&call, &device, &measured).expect("a refusal").to_string())
    };
    let wrong = || variant("histWrong", 9);
    let lost = |name, priority| variant(name, priority);
    let rows = || vec![wrong(), lost("histLoses", 8), lost("histLosesToo", 7)];
    assert_eq!(picked(rows()), Ok("histLoses".to_owned()), "in declared order");
    assert_eq!(picked([rows(), vec![variant("floor", 0)]].concat()), Ok("floor".to_owned()));
    let tile = |name, priority| Variant { family: "tile", ..variant(name, priority) };
    let member = vec![wrong(), tile("histLosesFirst", 8), tile("tile64", 1)];
    assert_eq!(picked(member), Ok("tile64".to_owned()), "not held back itself");
    let refused = picked(vec![wrong()]).expect_err("nothing serves");
    assert!(refused.ends_with("furthest came histWrong: ready: differs"), "{refused}");
}

#[test]
fn a_name_is_given_once() {
    let mut table = table(variants());
    let error = table.register(Histogram::of(variant("histSlab", 99))).expect_err("taken");
    assert!(error.to_string().contains("`histSlab`"), "{error}");
    assert!(table.register(Histogram::of(variant("histOther", 99))).is_ok());
    assert_eq!(table.routes()[0].name(), "histOther");
    let twice = RouteTable::of("t", vec![Histogram::of(variant("a", 0)), Histogram::of(variant("a", 1))]);
    assert!(twice.is_err());
}

#[test]
fn rows_of_several_types_share_a_table() {
    let rows: Vec<Box<dyn Route<Call = Build<'_>>>> =
        variants().into_iter().map(|variant| Box::new(Histogram::of(variant)) as _).collect();
    let table = RouteTable::of("histogram", rows).expect("distinct names");
    let picked = table.pick(&build(8, 7, &[1, 1]), &Can(Vec::new()), &Declared).expect("one serves");
    assert_eq!(picked.route.name(), "histGlobal");
}

#[test]
fn the_audit_says_who_serves_what_and_asks_no_device() {
    let table = table(variants());
    let queries = [
        binning(8, 8),
        binning(128, 8),
        Binning { format: U16, ..binning(8, 8) },
        Binning { regime: SUBTRACT, format: U16, ..binning(8, 8) },
    ];
    let audit = table.audit(&queries);
    assert_eq!(audit.table, "histogram");
    let served: Vec<(usize, bool)> =
        audit.queries.iter().map(|query| (query.serves, query.shadowed)).collect();
    assert_eq!(served, [(3, true), (2, true), (1, false), (0, false)]);
    let row = |name: &str| audit.rows.iter().find(|row| row.row == name).expect("listed");
    assert_eq!((row("histShared").fires, row("histSlab").fires, row("histSubtract").fires), (1, 2, 0));
    assert_eq!(row("histShared").needs, ["shared atomics", "wide atomics"]);
    assert_eq!(audit.clause(1, "histShared"), Some(Clause::Shape));
    assert_eq!(audit.clause(0, "histShared"), None);
    assert_eq!(audit.clause(3, "histSubtract"), Some(Clause::Format));
    assert_eq!(audit.clause(3, "histGlobalU16"), Some(Clause::Regime));
    assert!(row("histSubtract").never() && !row("histSlab").never() && !row("histSlab").always());

    // The pair for one row: its own format at shapes that should and should not take it.
    let shared = &table.routes()[0];
    let row = table.audit_row(shared, &[binning(8, 8), binning(8, 7), binning(65, 8)]);
    assert_eq!((row.fires, row.asked, row.never(), row.always()), (1, 3, false, false));
    assert!(table.audit_row(shared, &[binning(65, 8)]).never());
    assert!(table.audit_row(shared, &[binning(8, 8)]).always());
}
