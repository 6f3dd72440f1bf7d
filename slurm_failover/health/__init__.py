"""What readings say: the state of GPUs, machine and BMC → events. Pure.

Logs tell of faults as they happen; these modules judge what never reaches a log, by thresholds and
against the memory of earlier looks.
"""
