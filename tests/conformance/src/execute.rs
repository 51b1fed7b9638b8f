//! Runs a plan on the device: poisoned buffers between canaries, one prepared list.

use cajeta_abi::{Code, DeviceFacts, Fact, MemoryKind, Problem};
use cajeta_plugin_host::{Buffer, BufferSpan, Device, DeviceError, LaunchSpec, List, Queue};

use crate::plan::Plan;

/// Bytes after each buffer that nothing may touch.
const TAIL: u64 = 192;
/// What canaries are made of: finite in every float format, and not the poison.
const CANARY: u8 = 0x3A;
/// What memory nothing wrote holds.
const POISON: u8 = 0xFF;

/// Why a plan did not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The backend says it cannot do that.
    Unsupported(String),
    /// It broke its word.
    Failed(String),
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Failure {
        match error.code {
            Code::UNSUPPORTED => Failure::Unsupported(error.to_string()),
            _ => Failure::Failed(error.to_string()),
        }
    }
}

/// A plan whose memory is allocated and whose list is prepared.
pub(crate) struct Prepared {
    device: Device,
    places: Vec<Place>,
    semaphores: Vec<BufferSpan>,
    list: List,
}

struct Place {
    buffer: Buffer,
    lead: u64,
}

/// The offset granularity of a device's buffer arguments.
pub(crate) fn alignment(facts: &DeviceFacts) -> u64 {
    facts.get(Fact::BUFFER_ALIGNMENT).filter(|align| align.is_power_of_two()).unwrap_or(1).max(16)
}

/// Bytes a buffer of a case may have on a device.
pub(crate) fn largest_buffer(facts: &DeviceFacts) -> u64 {
    let limits = [Fact::LARGEST_BINDING, Fact::LARGEST_ALLOCATION];
    let limit = limits.into_iter().filter_map(|fact| facts.get(fact)).min().unwrap_or(u64::MAX);
    // A buffer of the suite has canaries around it.
    if limit == u64::MAX { limit } else { limit.saturating_sub(TAIL + 2 * alignment(facts)) }
}

impl Prepared {
    /// Allocates and prepares. `split_high` asks for the most parts a row splits in.
    pub(crate) fn new(device: &Device, plan: &Plan, split_high: bool) -> Result<Prepared, Failure> {
        let mut places = Vec::with_capacity(plan.buffers.len());
        for wanted in &plan.buffers {
            let lead = alignment(device.facts()).max(wanted.align).max(64);
            let bytes = lead + wanted.len + wanted.padding + TAIL;
            places.push(Place { buffer: device.alloc(bytes, MemoryKind::DEVICE, true)?, lead });
        }
        let mut semaphores = Vec::new();
        let mut specs = Vec::with_capacity(plan.launches.len());
        for launch in &plan.launches {
            let geometry =
                device.backend().geometry(launch.row, device.facts(), &launch.problem, &launch.scalars)?;
            let args: Result<Vec<Option<BufferSpan>>, Failure> = launch
                .args
                .iter()
                .map(|arg| {
                    let Some((place, wanted)) = arg.and_then(|at| places.get(at).zip(plan.buffers.get(at)))
                    else {
                        return Ok(None);
                    };
                    Ok(Some(place.buffer.span(place.lead, wanted.len)?))
                })
                .collect();
            let side = |bytes: u64| -> Result<Option<BufferSpan>, Failure> {
                if bytes == 0 {
                    return Ok(None);
                }
                Ok(Some(device.alloc(bytes, MemoryKind::DEVICE, true)?.whole()))
            };
            let own = side(geometry.semaphore_bytes)?;
            semaphores.extend(own.clone());
            let split = if split_high { geometry.split_max } else { geometry.split_min };
            specs.push(LaunchSpec {
                row: launch.row,
                split: split.max(1),
                problem: launch.problem,
                args: args?,
                scalars: launch.scalars.clone(),
                scratch: side(geometry.scratch_bytes)?,
                semaphores: own,
            });
        }
        let list = device.list(&specs)?;
        Ok(Prepared { device: device.clone(), places, semaphores, list })
    }

    /// The prepared list.
    pub(crate) fn list(&self) -> &List {
        &self.list
    }

    /// The span of one of the plan's buffers.
    pub(crate) fn span(&self, plan: &Plan, buffer: usize) -> Result<BufferSpan, Failure> {
        match (self.places.get(buffer), plan.buffers.get(buffer)) {
            (Some(place), Some(wanted)) => Ok(place.buffer.span(place.lead, wanted.len)?),
            _ => Err(Failure::Failed(format!("the plan has no buffer {buffer}"))),
        }
    }

    /// Writes inputs, canaries and zeroed semaphores.
    pub(crate) fn write(&self, plan: &Plan, queue: &mut Queue) -> Result<(), Failure> {
        for (place, wanted) in self.places.iter().zip(&plan.buffers) {
            // The lead, the bytes, what may be read after them, and the tail.
            let end = place.lead + wanted.len;
            let lead = vec![CANARY; place.lead as usize];
            let tail = vec![CANARY; TAIL as usize];
            queue.upload(&place.buffer.span(0, place.lead)?, &lead)?;
            queue.upload(&place.buffer.span(end + wanted.padding, TAIL)?, &tail)?;
            if let Some(initial) = &wanted.initial {
                queue.upload(&place.buffer.span(place.lead, wanted.len)?, initial)?;
            }
        }
        for span in &self.semaphores {
            queue.upload(span, &vec![0; span.len() as usize])?;
        }
        Ok(())
    }

    /// Submits and waits.
    pub(crate) fn run(&self, queue: &mut Queue) -> Result<(), Failure> {
        let ticket = queue.submit(&self.list)?;
        Ok(queue.wait(ticket)?)
    }

    /// Reads every buffer back, and holds the surroundings against what they were.
    pub(crate) fn read(&self, plan: &Plan, queue: &mut Queue) -> Result<Vec<Vec<u8>>, Failure> {
        let mut contents = Vec::with_capacity(self.places.len());
        for (place, wanted) in self.places.iter().zip(&plan.buffers) {
            let mut all = vec![0u8; place.buffer.len() as usize];
            queue.download(&place.buffer.whole(), &mut all)?;
            let (start, end) = (place.lead as usize, (place.lead + wanted.len) as usize);
            let tail = end + wanted.padding as usize;
            let outside = |range: std::ops::Range<usize>, byte: u8| {
                let first = range.start;
                all.get(range).unwrap_or(&[]).iter().position(|&found| found != byte).map(|at| first + at)
            };
            let strayed = outside(0..start, CANARY)
                .or_else(|| outside(end..tail, POISON))
                .or_else(|| outside(tail..all.len(), CANARY));
            if let Some(at) = strayed {
                let what = if at < start {
                    format!("{} bytes before {}", start - at, wanted.name)
                } else {
                    format!("{} bytes past the end of {}", at - end, wanted.name)
                };
                return Err(Failure::Failed(format!("something was written {what}")));
            }
            contents.push(all.get(start..end).unwrap_or(&[]).to_vec());
        }
        for span in &self.semaphores {
            let mut bytes = vec![0u8; span.len() as usize];
            queue.download(span, &mut bytes)?;
            if let Some(at) = bytes.iter().position(|&byte| byte != 0) {
                return Err(Failure::Failed(format!(
                    "the semaphores are not left zero: byte {at} is {}",
                    bytes[at]
                )));
            }
        }
        Ok(contents)
    }

    /// The device it is on.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }
}

/// Runs a plan once and reads it back.
pub(crate) fn execute(
    device: &Device,
    plan: &Plan,
    queue: &mut Queue,
    split_high: bool,
) -> Result<Vec<Vec<u8>>, Failure> {
    let prepared = Prepared::new(device, plan, split_high)?;
    prepared.write(plan, queue)?;
    prepared.run(queue)?;
    prepared.read(plan, queue)
}

/// Whether a row answers the same geometry twice.
pub(crate) fn geometry_is_pure(
    device: &Device,
    row: usize,
    problem: &Problem,
    scalars: &[u8],
) -> Result<(), Failure> {
    let ask = || device.backend().geometry(row, device.facts(), problem, scalars);
    let (first, second) = (ask()?, ask()?);
    if first != second {
        return Err(Failure::Failed(format!("geometry answers {first:?}, then {second:?}, for {problem:?}")));
    }
    Ok(())
}
