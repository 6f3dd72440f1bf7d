"""What must hold after every story, however it was troubled."""

from __future__ import annotations

from play import Cluster

from slurm_failover.record import State, Step


def check(cluster: Cluster) -> list[str]:
    """The promises that are broken, as sentences; none where all hold."""
    broken: list[str] = []
    for label in cluster.jobs:
        broken += [f"job {label}: {words}" for words in _check_job(cluster, label)]
    for name in cluster.nodes:
        broken += [f"node {name}: {words}" for words in _check_node(cluster, name)]
    return broken


def _check_job(cluster: Cluster, label: str) -> list[str]:
    job, record, script = cluster.slurm.peek(label), cluster.record(label), cluster.jobs[label]
    broken = []
    if not job.comment.startswith(script.comment):
        broken.append(f"the owner's comment is now {job.comment!r}")
    if label in cluster.cancelled and job.state != "CANCELLED":
        broken.append(f"it was cancelled, and is {job.state}")
    is_held = label in cluster.held and job.state != "CANCELLED"
    if is_held and job.hold != cluster.held[label]:
        broken.append(f"the hold {cluster.held[label]} became {job.hold or 'none'}")
    if record is None:
        return broken
    moved = [past for past in record.history if past.outcome == "failover"]
    if record.retries > record.max_retries or record.retries > cluster.limit:
        broken.append(f"{record.retries} retries, more than {record.max_retries}")
    if len({past.start for past in moved}) != record.retries:
        broken.append(f"{record.retries} retries are counted, and {len(moved)} are in the history")
    if len(cluster.attempts[label]) < record.retries:
        broken.append("more retries are counted than there were attempts")
    if job.state == "PENDING" and record.step in (Step.HELD, Step.DECIDED):
        broken.append(f"it stays {record.state.value} ({record.step.value}) for ever")
    is_theirs = label in cluster.held and record.step is Step.PLACED
    is_ours = job.state == "PENDING" and job.hold and not is_theirs
    if is_ours and record.state is State.FAILOVERINPROGRESS:
        broken.append("it is held as failoverinprogress for ever")
    return broken


def _check_node(cluster: Cluster, name: str) -> list[str]:
    node = cluster.slurm.peek_node(name)
    foreign = cluster.foreign.get(name)
    if foreign is not None and node.reason != foreign:
        return [f"the reason {foreign!r} became {node.reason!r}"]
    if node.reason.startswith("slurm-failover") and name not in cluster.needy:
        return [f"a good node was drained: {node.reason}"]
    return []
