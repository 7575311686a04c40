"""Runs told apart, roles given, silence and facts named. Whole logs are in `tests/corpus`."""
# ruff: noqa: E501  (log lines stay whole)

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from triage.logs import read_incidents
from triage.logs.model import Incident, LogSource

SGLANG = "/opt/x/lib/python3.12/site-packages/sglang/srt"


def source(*rows: str, name: str = "log") -> LogSource:
    return LogSource(name, "\n".join(rows).encode())


def incidents(*rows: str) -> tuple[Incident, ...]:
    return read_incidents([source(*rows)])


def incident(*rows: str) -> Incident:
    (found,) = incidents(*rows)
    return found


def failing(stamp: str, error: str, file: str = "models/llama.py") -> list[str]:
    return [
        f"[{stamp}] Scheduler hit an exception: Traceback (most recent call last):",
        f'  File "{SGLANG}/managers/scheduler.py", line 3918, in run_scheduler_process',
        "    scheduler = Scheduler(",
        f'  File "{SGLANG}/{file}", line 7, in work',
        "    self.do()",
        error,
        "",
    ]


def journal(rows: Sequence[tuple[str, str, str]], start: int = 1_795_969_335_000_000) -> list[str]:
    """(invocation, who, text): one entry a second."""
    return [
        json.dumps(
            {
                "__CURSOR": f"s=1;i={number:x}",
                "__REALTIME_TIMESTAMP": str(start + number * 1_000_000),
                "_PID": "1" if who == "systemd" else "100",
                "SYSLOG_IDENTIFIER": who,
                "MESSAGE": text,
                **(
                    {"INVOCATION_ID": run, "UNIT": "x.service"}
                    if who == "systemd"
                    else {"_SYSTEMD_INVOCATION_ID": run}
                ),
            }
        )
        for number, (run, who, text) in enumerate(rows)
    ]


BANNER = (
    "[2026-05-12 14:00:00] server_args=ServerArgs(model_path='/m', tp_size=2, pp_size=4, dp_size=1, nnodes=1)"
)
SIGQUIT = "[2026-05-12 14:00:09] Received sigquit from a child process. It usually means the child failed."


def test_the_innermost_engine_frame_that_is_no_accessor_is_the_culprit() -> None:
    rows = failing("2026-05-12 14:00:08 PP3 TP0", "KeyError: 0", "layers/attention/triton_backend.py")
    rows[5:5] = [
        f'  File "{SGLANG}/mem_cache/pool.py", line 20, in get_value_buffer',
        "    return self._get_value_buffer(layer_id)",
        f'  File "{SGLANG}/mem_cache/pool.py", line 30, in _get_value_buffer',
        "    return self.mapping[layer_id]",
        '  File "/opt/x/lib/python3.12/site-packages/torch/nn/modules/container.py", line 9, in __getitem__',
        "    return self._modules[key]",
    ]
    initiator = incident(*rows).initiator
    assert initiator is not None
    assert initiator.frame is not None
    assert (initiator.frame.file.rpartition("/")[2], initiator.frame.function) == (
        "triton_backend.py",
        "work",
    )


def test_silent_ranks_come_from_prefixes_and_layout() -> None:
    found = incident(
        BANNER,
        "[2026-05-12 14:00:07 PP3 TP0] Memory pool end. avail mem=1 GB",
        *failing("2026-05-12 14:00:08 PP3 TP0", "KeyError: 0"),
        SIGQUIT,
    )
    assert len(found.ranks) == 8
    assert found.silent_ranks == ("PP0 TP0", "PP0 TP1", "PP1 TP0", "PP1 TP1", "PP2 TP0", "PP2 TP1", "PP3 TP1")
    assert (found.facts["pp_size"], found.facts["engine"], found.phase) == ("4", "sglang", "Memory pool end")


def test_no_rank_is_silent_that_never_was_there() -> None:
    assert incident(BANNER, *failing("2026-05-12 14:00:08", "ValueError: tp_size")).silent_ranks == ()


def test_what_says_that_it_is_a_consequence_is_one_even_if_it_stands_first() -> None:
    found = incident(
        *failing("2026-05-12 14:00:08 TP1", "EOFError"),
        *failing(
            "2026-05-12 14:00:08 TP0",
            "RuntimeError: [../gloo/transport/tcp/pair.cc:1] Connection closed by peer [1.2.3.4]:5",
        ),
        *failing("2026-05-12 14:00:08 TP3", "TypeError: unsupported operand"),
    )
    assert found.initiator is not None
    assert (found.initiator.type, found.initiator.ranks) == ("TypeError", {"TP3"})
    assert [fault.role for fault in found.faults] == ["victim", "victim", "initiator"]


def test_an_earlier_time_wins_over_an_earlier_line() -> None:
    found = incident(
        *failing("2026-05-12 14:00:09 TP0", "ValueError: late"),
        *failing("2026-05-12 14:00:03 TP1", "TypeError: early"),
    )
    assert found.initiator is not None
    assert found.initiator.type == "TypeError"


def test_a_chain_that_began_with_a_lost_peer_is_a_consequence() -> None:
    rows = [
        "[2026-05-12 14:00:08 TP0] hit: Traceback (most recent call last):",
        f'  File "{SGLANG}/a.py", line 1, in f',
        "    g()",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        f'  File "{SGLANG}/a.py", line 2, in f',
        "    raise ValueError",
        "ValueError: no answer",
    ]
    assert incidents(*rows) == ()
    found = incident(*rows, *failing("2026-05-12 14:00:09 TP1", "TypeError: x"))
    assert found.initiator is not None
    assert found.initiator.type == "TypeError"


def test_a_broken_client_connection_is_no_incident() -> None:
    assert incidents(BANNER, *failing("2026-05-12 14:00:08", "BrokenPipeError: [Errno 32] Broken pipe")) == ()


def test_undecided_names_candidates() -> None:
    found = incident(BANNER, SIGQUIT)
    assert found.initiator is None
    assert [fault.type for fault in found.candidates] == ["child-failed"]


def test_a_death_is_explained_by_what_the_dead_one_printed_after() -> None:
    died = "(EngineCore pid=9) ERROR 11-29 15:24:41 [multiproc_executor.py:315] Worker proc VllmWorker-1 died unexpectedly"
    error = [
        f"(Worker_PP1 pid=11) ERROR 11-29 15:24:41 [a.py:1] {text}"
        for text in (
            "Traceback (most recent call last):",
            '  File "/x/vllm/a.py", line 1, in f',
            "    g()",
            "KeyError: 'w'",
        )
    ]
    names = "(VllmWorker-1 pid=11) INFO 11-29 15:20:00 [a.py:1] x"
    found = incident(names, f"{died} (exit code: 1), shutting down executor.", *error)
    assert found.initiator is not None
    assert (found.initiator.type, found.initiator.ranks) == ("KeyError", {"PP1"})
    found = incident(names, f"{died} (exit code: -9), shutting down executor.", *error)
    assert found.initiator is not None
    assert (found.initiator.type, found.initiator.ranks, found.initiator.pid) == ("SIGKILL", {"PP1"}, 11)


def test_runs_are_told_apart_by_invocation_though_they_interleave() -> None:
    first, second = (
        failing("2026-05-12 14:00:08 PP1", "KeyError: 1"),
        failing("2026-05-12 14:00:08 PP2", "TypeError: x"),
    )
    rows = [("a", "systemd", "Started x.service - X."), ("b", "systemd", "Started x.service - X.")]
    rows += [
        (run, "python", text)
        for pair in zip(first, second, strict=True)
        for run, text in zip("ab", pair, strict=True)
    ]
    lines = [line.replace('"100"', '"200"') if '": "b"' in line else line for line in journal(rows)]
    found = incidents(*lines)
    assert [each.initiator and each.initiator.type for each in found] == ["KeyError", "TypeError"]


def test_a_crash_loop_is_one_incident() -> None:
    rows: list[tuple[str, str, str]] = []
    for run in range(200):
        rows.append((f"i{run}", "systemd", "Started x.service - X."))
        rows += [
            (f"i{run}", "python", text) for text in failing("2026-05-12 14:00:08 PP1", f"KeyError: {run}")
        ]
        rows.append((f"i{run}", "systemd", "x.service: Failed with result 'exit-code'."))
    (found,) = incidents(*journal(rows))
    assert found.count == 200
    assert found.started is not None
    assert found.ended is not None
    assert (found.ended - found.started).total_seconds() == len(rows) - 1


def test_a_stop_makes_teardown_of_what_follows_but_not_of_what_was_before() -> None:
    stopping = ("i", "systemd", "Stopping x.service - X...")
    killed = ("i", "systemd", "x.service: Failed with result 'signal'.")
    error = [("i", "python", text) for text in failing("2026-05-12 14:00:08 PP1", "KeyError: 1")]
    start = ("i", "python", BANNER)
    assert incidents(*journal([start, stopping, *error, killed])) == ()
    (found,) = incidents(*journal([start, *error, stopping, killed]))
    assert [(fault.type, fault.role) for fault in found.faults] == [
        ("KeyError", "initiator"),
        ("signal", "teardown"),
    ]


def test_sigkill_alone_is_not_the_oom_killer() -> None:
    (found,) = incidents(
        *journal(
            [
                ("i", "python", BANNER),
                ("i", "systemd", "x.service: Main process exited, code=killed, status=9/KILL"),
            ]
        )
    )
    assert found.initiator is not None
    assert (found.initiator.kind, found.initiator.type) == ("service", "signal")
    assert "the log holds nothing else that failed" in found.initiator.because


def kernel(text: str, seconds: float) -> LogSource:
    entry = {
        "__CURSOR": "k",
        "__REALTIME_TIMESTAMP": str(1_795_969_335_000_000 + int(seconds * 1_000_000)),
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": text,
    }
    return source(json.dumps(entry), name="kernel")


def test_the_kernel_explains_a_death_when_it_speaks_of_this_process_at_that_time() -> None:
    rows = journal(
        [
            ("i", "python", BANNER),
            ("i", "python", SIGQUIT),
            ("i", "systemd", "x.service: Failed with result 'signal'."),
        ]
    )
    oom = "Out of memory: Killed process {} ({}) total-vm:1kB"
    (found,) = read_incidents([source(*rows), kernel(oom.format(100, "sglang"), 0.5)])
    assert found.initiator is not None
    assert (found.initiator.kind, found.initiator.type, found.initiator.position.source) == (
        "kernel",
        "oom-kill",
        "kernel",
    )
    (found,) = read_incidents([source(*rows), kernel(oom.format(100, "sglang"), -5000)])
    assert found.initiator is None
    (found,) = read_incidents([source(*rows), kernel(oom.format(999, "mysqld"), 0.5)])
    assert found.initiator is None


def test_equal_faults_of_ranks_are_one_with_all_ranks() -> None:
    found = incident(
        *failing("2026-05-12 14:00:08 TP0", "ValueError: on GPU 0"),
        *failing("2026-05-12 14:00:08 TP7", "ValueError: on GPU 7"),
    )
    assert found.initiator is not None
    assert (found.initiator.ranks, found.initiator.count, len(found.faults)) == ({"TP0", "TP7"}, 2, 1)
    assert "2 ranks report the same" in found.initiator.because


def test_a_repeated_line_of_ray_counts() -> None:
    found = incident("(RayWorkerWrapper pid=5, ip=10.1.1.7) ValueError: x [repeated 7x across cluster]")
    assert found.initiator is not None
    assert found.initiator.count == 8


def test_a_warning_with_a_traceback_is_benign() -> None:
    rows = [
        f"(APIServer pid=7) WARNING 11-29 15:24:41 [a.py:1] {text}"
        for text in (
            "Failed to import",
            "Traceback (most recent call last):",
            '  File "/x/vllm/a.py", line 1, in f',
            "ImportError: x",
        )
    ]
    assert incidents(*rows) == ()
    found = incident(*rows, "(EngineCore pid=9) ERROR 11-29 15:24:41 [b.py:1] ValueError: y")
    assert [(fault.type, fault.role) for fault in found.faults] == [
        ("ImportError", "benign"),
        ("ValueError", "initiator"),
    ]


def test_another_services_failure_is_not_ours() -> None:
    rows = journal(
        [("ours", "python", BANNER), ("ours", "python", "[2026-05-12 14:00:07 PP0] Load weight begin.")]
    )
    other = journal([("theirs", "backup", text) for text in failing("", "OSError: disk")])
    other = [line.replace('"100"', '"300"') for line in other]
    assert incidents(*rows, *(line.replace(SGLANG, "/opt/backup") for line in other)) == ()


def test_nothing_at_all() -> None:
    assert read_incidents([]) == ()
    assert incidents("") == ()


def test_a_word_that_a_shell_also_says_is_no_death() -> None:
    prefix = "INFO 05-12 14:03:59 [async_llm.py:412] "
    assert incidents(f"{prefix}Aborted request cmpl-1.", f"{prefix}Killed 3 idle sessions.") == ()
    assert incident("./run.sh: line 3:  4711 Killed                  python -m x").initiator is not None


def test_an_xid_that_ends_no_process_is_not_the_cause() -> None:
    rows = failing("2026-11-29 16:22:15 TP0", "ValueError: unknown")
    for number in (45, 63, 92, 121, 154):
        found = incident(
            f"[Sun Nov 29 16:22:10 2026] NVRM: Xid (PCI:0000:41:00): {number}, pid=9, name=python3, x", *rows
        )
        assert found.initiator is not None
        assert found.initiator.type == "ValueError"


def test_numbers_of_switch_errors_are_whole() -> None:
    found = incident(
        "[Sun Nov 29 16:22:10 2026] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    )
    assert found.initiator is not None
    assert found.initiator.type == "SXid 20034"


@pytest.mark.parametrize(
    ("line", "kind", "type"),
    [
        (
            "ERROR 08-13 15:22:52 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 139 died, exit code: -9",
            "signal",
            "SIGKILL",
        ),
        (
            "ERROR 08-13 15:22:52 async_llm_engine.py:848] Engine iteration timed out. This should never happen!",
            "error",
            "engine-timeout",
        ),
        (
            "/x/host/init/init.cu:1008: non-zero status: 7 nvshmem initialization failed, exiting",
            "error",
            "nvshmem",
        ),
        (
            "/x/host/init/init.cu:nvshmemi_check_state_and_init:1080: nvshmem initialization failed, exiting",
            "error",
            "nvshmem",
        ),
        (
            "E0521 06:48:41.885119 10136 rdma_context.cpp:203] Failed to register memory 0x7b37: Invalid argument [22]",
            "error",
            "rdma-registration",
        ),
        (
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'",
            "error",
            "cuda-error",
        ),
        (
            "[rank0]:[F1129 14:56:44.123456789 ProcessGroupNCCL.cpp:1316] [PG ID 0 PG GUID 0(default_pg) Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
            "error",
            "nccl-watchdog-stuck",
        ),
        (
            "Nov 29 14:57:50 gpu01 kernel: cgroup: fork rejected by pids controller in /system.slice/sglang.service",
            "kernel",
            "pids-limit",
        ),
        (
            "Nov 29 14:57:50 gpu01 kernel: NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1474)",
            "kernel",
            "gpu-init",
        ),
        (
            "Jun  2 03:11:00 gpu01 systemd[1]: sglang.service: Failed to load environment files: No such file or directory",
            "service",
            "resources",
        ),
    ],
)
def test_one_line_that_tells_of_a_fault(line: str, kind: str, type: str) -> None:
    found = incident(line)
    assert found.initiator is not None
    assert (found.initiator.kind, found.initiator.type) == (kind, type)


@pytest.mark.parametrize(
    ("line", "type"),
    [
        (
            "(raylet) The node with node id: 0f21 and address: 10.0.0.51 and node name: 10.0.0.51 has been marked dead because the detector has missed too many heartbeats from it.",
            "ray-node-died",
        ),
        (
            "ERROR 08-13 15:22:52 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 139 died, exit code: -15",
            "SIGTERM",
        ),
    ],
)
def test_one_line_that_tells_of_a_consequence(line: str, type: str) -> None:
    found = incident(line)
    assert found.initiator is None
    assert [fault.type for fault in found.candidates] == [type]


def test_a_failed_import_counts_only_where_the_module_is_missed() -> None:
    warning = "WARNING 06-02 09:00:00 [_custom_ops.py:22] Failed to import from vllm._C with {}"
    reason = "ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')"
    missed = "Traceback (most recent call last):\n  File \"/x/vllm/platforms/cuda.py\", line 18, in <module>\n    import vllm._C\nModuleNotFoundError: No module named 'vllm._C'"
    found = incident(warning.format(reason), missed)
    assert found.initiator is not None
    assert (found.initiator.type, found.initiator.position.line) == ("ImportError", 1)
    assert found.initiator.message.startswith("libcudart.so.12: ")
    found = incident(warning.format("ModuleNotFoundError(\"No module named 'vllm._C'\")"), missed)
    assert found.initiator is not None
    assert found.initiator.position.line == 5
    assert incidents(warning.format(reason)) == ()


@pytest.mark.parametrize(
    "said",
    [
        "I/O error, dev nvme0n1, sector 3 op 0x0:(READ)",
        "nfs: server nas not responding, timed out",
        "INFO: task python3:4711 blocked for more than 122 seconds.",
    ],
)
def test_a_fault_of_the_host_is_a_cause_where_nothing_else_is(said: str) -> None:
    line = f"Jun  2 03:11:00 gpu01 kernel: {said}"
    ended = "Jun  2 03:11:01 gpu01 systemd[1]: sglang.service: Failed with result 'exit-code'."
    for rows in ((line,), (line, ended)):
        initiator = incident(*rows).initiator
        assert initiator is not None
        assert initiator.kind == "kernel"
    assert (
        incidents(
            line,
            "Jun  2 03:11:02 gpu01 sglang[9]: [2026-06-02 03:11:02] The server is fired up and ready to roll!",
        )
        == ()
    )
    found = incident(line, *failing("2026-06-02 03:11:02 TP0", "ValueError: unknown"), ended).initiator
    assert found is not None
    assert found.type == "ValueError"


BEGUN = "Traceback (most recent call last):"


@pytest.mark.parametrize(
    "rows",
    [
        (f"[2026-11-29 14:33:51 TP1] Scheduler hit an exception: {BEGUN}",),
        ("INFO 11-29 14:33:50 [gpu_worker.py:10] Starting", BEGUN, ""),
        (f"[2026-11-29 14:33:51 TP1] Scheduler hit an exception: {BEGUN}", "[2026-11-29 14:33:51 TP0] x"),
        (f"(Worker_TP1 pid=451) ERROR 11-29 14:34:04 [multiproc_executor.py:953] {BEGUN}",),
    ],
)
def test_a_log_that_ends_with_the_first_line_of_a_traceback_is_not_without_fault(
    rows: tuple[str, ...],
) -> None:
    found = incident(*rows)
    assert found.initiator is None
    assert [fault.message for fault in found.candidates] == ["of a traceback only the first line can be read"]


@pytest.mark.parametrize(
    "rows",
    [
        (BEGUN, *["INFO 11-29 14:33:50 [gpu_worker.py:10] Starting"] * 50),  # it went on
        (f"WARNING 11-29 14:34:04 [a.py:9] it is ignored: {BEGUN}",),
        (
            "[2026-11-29 14:33:51] Receive: obj=GenerateReqInput(rid='7a1c', text='why does it say",
            f"{BEGUN}",
        ),
    ],
)
def test_a_first_line_alone_is_no_fault_where_the_program_went_on_or_a_user_sent_it(
    rows: tuple[str, ...],
) -> None:
    assert incidents(*rows) == ()
