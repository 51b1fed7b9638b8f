//! The rows this plugin claims: one honest copy, or something malformed.

use abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{
    Access, ArgSpec, Arith, Capability, DtypeId, FormatId, LayoutId, Need, OpId, Regime, Row, ShapeGate,
    Step, Subject, Test, Wire,
};
use cajeta_catalog::op::Op;

use crate::behaviour::is;

const fn arg(access: Access) -> ArgSpec {
    ArgSpec {
        layout: LayoutId::PLAIN,
        dtype: DtypeId::F32,
        format: FormatId::NONE,
        align: 4,
        padding: 0,
        access,
        alias: -1,
    }
}

static ARGS: [ArgSpec; 2] = [arg(Access::READ), arg(Access::WRITE)];
static WIRES: [Wire; 3] = [Wire::arg(0), Wire::ABSENT, Wire::arg(1)];
static STEPS: [Step; 1] = [Step { op: Op::Copy.id(), attrs: 0, operands: RSlice::from_slice(&WIRES) }];

const COPY: Row = Row {
    name: RStr::from_str("copy"),
    family: RStr::from_str(""),
    regime: Regime::PREFILL_BATCH,
    arith: Arith::NONE,
    priority: 0,
    steps: RSlice::from_slice(&STEPS),
    problem_step: 0,
    args: RSlice::from_slice(&ARGS),
    needs: RSlice::EMPTY,
    shape_gates: RSlice::EMPTY,
    ready_gates: RSlice::EMPTY,
};

static BAD_NAME: [u8; 4] = [b'a', 0xff, 0x1b, b'b'];
static FAR_WIRES: [Wire; 3] = [Wire::arg(0), Wire::ABSENT, Wire::arg(700)];
static SHORT_WIRES: [Wire; 1] = [Wire::arg(0)];
static EARLY_WIRES: [Wire; 3] = [Wire::internal(4), Wire::ABSENT, Wire::arg(1)];

fn wired(wires: &'static [Wire]) -> Row {
    let step = Step { op: Op::Copy.id(), attrs: 0, operands: RSlice::from_slice(wires) };
    Row { steps: leak(vec![step]), ..COPY }
}

fn leak<T>(list: Vec<T>) -> RSlice<'static, T> {
    RSlice::from_slice(list.leak())
}

/// The registry, as this copy's behaviour has it.
pub(crate) fn rows() -> RSlice<'static, Row> {
    if is("panics-in-rows") {
        panic!("rows are a secret");
    }
    if is("has-rows-at-null") {
        // SAFETY: none; the host must not look there.
        return unsafe { RSlice::from_raw_parts(std::ptr::null(), 3) };
    }
    if is("has-too-many-rows") {
        // SAFETY: none; the host must not look there.
        return unsafe { RSlice::from_raw_parts(std::ptr::dangling(), usize::MAX) };
    }
    if is("has-a-row-twice") {
        return leak(vec![COPY, COPY]);
    }
    if is("has-a-row-of-a-bad-name") {
        // SAFETY: static bytes; that they are not UTF-8 is the point.
        let name = unsafe { RStr::from_raw_parts(BAD_NAME.as_ptr(), BAD_NAME.len()) };
        return leak(vec![COPY, Row { name, ..COPY }]);
    }
    if is("has-a-row-of-no-steps") {
        return leak(vec![Row { steps: RSlice::EMPTY, ..COPY }]);
    }
    if is("wires-past-its-arguments") {
        return leak(vec![wired(&FAR_WIRES)]);
    }
    if is("wires-too-few-operands") {
        return leak(vec![wired(&SHORT_WIRES)]);
    }
    if is("reads-before-writing") {
        return leak(vec![wired(&EARLY_WIRES)]);
    }
    if is("aliases-nothing") {
        let args = vec![arg(Access::READ), ArgSpec { alias: 9, ..arg(Access::WRITE) }];
        return leak(vec![Row { args: leak(args), ..COPY }]);
    }
    if is("has-a-layout-it-lacks") {
        let args = vec![ArgSpec { layout: LayoutId(300), ..arg(Access::READ) }, arg(Access::WRITE)];
        return leak(vec![Row { args: leak(args), ..COPY }]);
    }
    if is("has-a-gate-of-zero") {
        let values = leak(vec![0u64]);
        let name = RStr::from_str("K % 0");
        let gate = ShapeGate { name, subject: Subject::K, test: Test::MULTIPLE_OF, values };
        return leak(vec![Row { shape_gates: leak(vec![gate]), ..COPY }]);
    }
    if is("has-a-nameless-need") {
        let need = Need { capability: Capability::F16, name: RStr::from_str(" ") };
        return leak(vec![Row { needs: leak(vec![need]), ..COPY }]);
    }
    if is("has-a-row-of-tomorrow") {
        // An op this catalog does not have, with operands of its own.
        let step = Step { op: OpId(9999), attrs: 7, operands: leak(vec![Wire::arg(0); 9]) };
        let args = leak(vec![arg(Access::READ)]);
        let row = Row { name: RStr::from_str("tomorrow"), steps: leak(vec![step]), args, ..COPY };
        return leak(vec![row, COPY]);
    }
    let gate = |name, test, value| ShapeGate {
        name: RStr::from_str(name),
        subject: Subject::M,
        test,
        values: leak(vec![value]),
    };
    let needing = |capability, name| {
        let need = Need { capability: Capability(capability), name: RStr::from_str(name) };
        Row { needs: leak(vec![need]), ..COPY }
    };
    if is("has-gates-that-exclude-each-other") {
        let gates = vec![gate("M <= 1", Test::AT_MOST, 1), gate("M >= 64", Test::AT_LEAST, 64)];
        return leak(vec![Row { shape_gates: leak(gates), ..COPY }]);
    }
    if is("reads-a-layout-nobody-makes") {
        let args = vec![ArgSpec { layout: LayoutId::OWN, ..arg(Access::READ) }, arg(Access::WRITE)];
        return leak(vec![Row { args: leak(args), ..COPY }]);
    }
    if is("needs-nothing-that-is") {
        return leak(vec![needing(0, "thrust")]);
    }
    if is("has-a-row-of-no-op") {
        let step = Step { op: OpId(0), attrs: 0, operands: RSlice::from_slice(&WIRES) };
        return leak(vec![Row { steps: leak(vec![step]), ..COPY }]);
    }
    if is("needs-a-capability-of-tomorrow") {
        return leak(vec![Row { name: RStr::from_str("tomorrow"), ..needing(4711, "anti-gravity") }, COPY]);
    }
    if is("is-all-of-tomorrow") {
        return leak(vec![needing(4711, "anti-gravity")]);
    }
    if crate::kernels::there_are() {
        return leak(crate::kernels::NAMES.map(|name| Row { name: RStr::from_str(name), ..COPY }).to_vec());
    }
    leak(vec![COPY])
}
