from __future__ import annotations

import posixpath
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.evidence.discovery.command_line import (
    expand_exec,
    layout_of,
    model_of,
    parse_arguments,
    recognise,
    recognise_script,
)
from triage.evidence.discovery.shell_script import unknown_in

ENGINES = [
    ("/v/bin/python -m sglang.launch_server --model-path M", "sglang"),
    ("/v/bin/python3.11 -u -X dev -W ignore -m sglang.launch_server --model-path M", "sglang"),
    ("python -msglang.launch_server --model M", "sglang"),
    ("/v/bin/python /v/bin/sglang serve --model-path M", "sglang"),
    ("/v/bin/sglang serve --model-path M", "sglang"),
    ("/v/bin/python -m sglang serve --model-path M", "sglang"),
    ("/v/bin/python /src/python/sglang/launch_server.py --model-path M", "sglang"),
    ("/v/bin/python3 /v/bin/vllm serve M -tp 4", "vllm"),
    ("/v/bin/vllm serve M", "vllm"),
    ("vllm serve M", "vllm"),
    ("/v/bin/python -m vllm.entrypoints.openai.api_server --model M", "vllm"),
    ("/v/bin/python -m vllm.entrypoints.cli.main serve M", "vllm"),
    (
        "/usr/bin/env A=1 CUDA_VISIBLE_DEVICES=0,1 /v/bin/python -m sglang.launch_server --model-path M",
        "sglang",
    ),
    ("numactl --cpunodebind=0 --membind=0 /v/bin/vllm serve M", "vllm"),
    ("nohup nice -n 5 /v/bin/python -m sglang.launch_server --model-path M", "sglang"),
    ("/bin/bash -c 'exec /v/bin/vllm serve M'", "vllm"),
    ("/bin/bash -lc 'source /v/bin/activate && vllm serve M'", "vllm"),
    (
        "/bin/sh -c 'cd /srv; . /v/bin/activate; python -m sglang.launch_server --model-path M 2>&1 | tee l'",
        "sglang",
    ),
]

OTHERS = [
    "",
    "/usr/sbin/sshd -D",
    "/v/bin/python -m sglang.bench_serving --backend sglang",
    "/v/bin/vllm bench serve --model M",
    "/v/bin/vllm --help",
    "/v/bin/python -c 'import sglang.launch_server'",
    "grep -r sglang.launch_server /srv",
    "vim /v/bin/vllm",
    "tail -f /var/log/vllm serve.log",
    "/v/bin/python -m http.server",
    "/v/bin/python",
    "python -m",
    "bash -c",
    "sglang::scheduler_PP3",
    "VLLM::EngineCore",
]


@pytest.mark.parametrize(("command", "engine"), ENGINES)
def test_what_starts_an_engine(command: str, engine: str) -> None:
    launch = recognise(shlex.split(command))
    assert launch is not None
    assert launch.engine == engine
    arguments, loose = parse_arguments(launch.engine, launch.arguments)
    assert model_of(arguments, loose) == "M"


@pytest.mark.parametrize("command", OTHERS)
def test_what_does_not(command: str) -> None:
    assert recognise(shlex.split(command)) is None


def test_what_a_shell_does_before_the_engine() -> None:
    launch = recognise(
        [
            "/bin/bash",
            "-c",
            "set -e\nexport NCCL_DEBUG=INFO VENV=/opt/venv\ncd /srv/run\nsource $VENV/bin/activate\n"
            "OMP_NUM_THREADS=1 exec python -m sglang.launch_server \\\n"
            '  --model-path "/m/a b" --tp 4 > log 2>&1',
        ]
    )
    assert launch is not None
    assert launch.python == "python"
    assert launch.working_directory == "/srv/run"
    assert launch.environment["VIRTUAL_ENV"] == "/opt/venv"
    assert launch.environment["PATH"].startswith("/opt/venv/bin")
    assert launch.environment["NCCL_DEBUG"] == "INFO"
    assert launch.environment["OMP_NUM_THREADS"] == "1"
    assert launch.arguments == ("--model-path", "/m/a b", "--tp", "4")


def test_variables_of_the_unit_reach_the_script() -> None:
    launch = recognise_script(
        'exec vllm serve "$MODEL" --port ${PORT} --x $UNKNOWN', {"MODEL": "/m", "PORT": "8001"}
    )
    assert launch is not None
    assert launch.arguments == ("/m", "--port", "8001", "--x", "$UNKNOWN")


def test_systemds_own_expansion() -> None:
    environment = {"A": "one two", "B": "x"}
    words = ["p", "$A", "${A}", "a${B}c", "$NONE", "${NONE}", "$$", "$${A}", "$$A$$"]
    assert expand_exec(words, environment) == (
        *("p", "one", "two", "one two", "axc", "", "$", "${A}", "$A$"),
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--port 8000 --host=0.0.0.0", {"port": "8000", "host": "0.0.0.0"}),
        ("--trust-remote-code --port 1", {"trust-remote-code": "", "port": "1"}),
        (
            "--mem-fraction-static -1 --seed -42 --x -1e-5",
            {"mem-fraction-static": "-1", "seed": "-42", "x": "-1e-5"},
        ),
        ("--cuda-graph-bs 1 2 4 --port 1", {"cuda-graph-bs": "1 2 4", "port": "1"}),
        ("--port 1 --port 2", {"port": "2"}),
        ("--model-path M --model N", {"model-path": "N"}),
        (
            "--tensor-parallel-size 4 --pp_size=2 --dp 8 --ep 2",
            {"tp-size": "4", "pp-size": "2", "dp-size": "8", "ep-size": "2"},
        ),
        ('--json {"a":1,"b":-2}', {"json": '{"a":1,"b":-2}'}),
        ("--empty= --port 1", {"empty": "", "port": "1"}),
    ],
)
def test_sglang_arguments(words: str, expected: dict[str, str]) -> None:
    assert parse_arguments("sglang", words.split())[0] == expected


@pytest.mark.parametrize(
    ("words", "expected", "loose"),
    [
        (
            "M -tp 4 -pp=2 -dp 2",
            {"tensor-parallel-size": "4", "pipeline-parallel-size": "2", "data-parallel-size": "2"},
            ("M",),
        ),
        ("--enforce-eager M", {"enforce-eager": ""}, ("M",)),
        ("--tp 4 --port 80 M", {"tensor-parallel-size": "4", "port": "80"}, ("M",)),
        (
            "--enable-prefix-caching --no-enable-chunked-prefill M --max-model-len -1",
            {"enable-prefix-caching": "", "no-enable-chunked-prefill": "", "max-model-len": "-1"},
            ("M",),
        ),
        ("M --tensor_parallel_size 8", {"tensor-parallel-size": "8"}, ("M",)),
        ("M -O 3", {"compilation-config": "3"}, ("M",)),
    ],
)
def test_vllm_arguments(words: str, expected: dict[str, str], loose: tuple[str, ...]) -> None:
    assert parse_arguments("vllm", words.split()) == (expected, loose)


def test_layouts() -> None:
    assert str(layout_of("sglang", {"pp-size": "8"})) == "pp8"
    assert (
        str(layout_of("sglang", {"tp-size": "2", "pp-size": "4", "dp-size": "2", "ep-size": "4"}))
        == "tp2 pp4 dp2 ep4"
    )
    assert (
        str(
            layout_of(
                "vllm", {"tensor-parallel-size": "2", "data-parallel-size": "2", "enable-expert-parallel": ""}
            )
        )
        == "tp2 dp2 ep4"
    )
    assert (
        str(layout_of("sglang", {"pp-size": "many", "tp-size": "-1", "dp-size": "99999999999999999999"}))
        == "one rank"
    )
    assert str(layout_of("", {})) == "one rank"


@pytest.mark.parametrize(
    "word", ["python", "bash -c", "sh -c '", "vllm", "A=1", "env", "-m", "$A", "\\", "'", "&&"]
)
def test_hostile_repetition_does_not_take_for_ever(word: str) -> None:
    words = [word] * 200_000
    assert recognise(words) is None
    assert recognise(" ".join(words).split()) is None
    assert recognise(["bash", "-c", " ".join(words)]) is None


@given(st.lists(st.text(max_size=30), max_size=12))
def test_no_words_break_it(words: list[str]) -> None:
    recognise(words)
    recognise(["bash", "-c", *words])
    recognise_script("\n".join(words))
    for engine in ("sglang", "vllm", ""):
        layout_of(engine, parse_arguments(engine, words)[0])  # type: ignore[arg-type]


GIVEN = {"VENV": "/opt/v", "MODEL": "/srv/m", "PORT": "31004", "EXTRA": "--tensor-parallel-size 4 --seed 1"}


@pytest.mark.parametrize(
    ("script", "argv"),
    [
        ("exec $VENV/bin/vllm serve $MODEL --port $PORT", "/opt/v/bin/vllm serve /srv/m --port 31004"),
        (
            "$VENV/bin/vllm serve ${MODEL} $EXTRA",
            "/opt/v/bin/vllm serve /srv/m --tensor-parallel-size 4 --seed 1",
        ),
        ("vllm serve m --port ${OTHER:-31005}", "vllm serve m --port 31005"),
        ("vllm serve m --port ${OTHER:-$PORT}", "vllm serve m --port 31004"),
        ("vllm serve m --port ${PORT:-1}", "vllm serve m --port 31004"),
        ("PORT=7; vllm serve m --port $PORT", "vllm serve m --port 7"),
        ("vllm serve m --port $NOBODY", "vllm serve m --port $NOBODY"),
    ],
)
def test_a_shell_line_is_filled_in_from_what_the_unit_gives_it(script: str, argv: str) -> None:
    launch = recognise(("/bin/bash", "-lc", script), GIVEN)
    assert launch is not None
    assert launch.argv == tuple(argv.split())


def test_arrays_of_a_script() -> None:
    script = """#!/bin/bash
MODEL=/srv/k2
ARGS=(
  --model-path "$MODEL"   # the big one
  --tp 4
)
[ -n "$DEBUG" ] && ARGS+=(--log-level debug)
declare -a MORE=(--port 31006 "--served-model-name" 'k 2')
exec "$VENV/bin/python" -m sglang.launch_server "${ARGS[@]}" "${MORE[@]}"
"""
    launch = recognise_script(script, GIVEN)
    assert launch is not None
    assert launch.python == "/opt/v/bin/python"
    arguments, _ = parse_arguments("sglang", launch.arguments)
    assert arguments["model-path"] == "/srv/k2"
    assert (arguments["tp-size"], arguments["port"]) == ("4", "31006")
    assert arguments["served-model-name"] == "k 2"


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (
            "/opt/conda/bin/conda run -n serve --no-capture-output python -m sglang.launch_server",
            "envs/serve/bin",
        ),
        ("/opt/conda/bin/conda run --name=serve vllm serve m", "envs/serve/bin"),
        ("/opt/conda/bin/mamba run -n base vllm serve m", "bin"),
        ("conda run -p /opt/conda/envs/x vllm serve m", "envs/x/bin"),
    ],
)
def test_the_environment_that_conda_run_names(command: str, path: str) -> None:
    launch = recognise(command.split())
    assert launch is not None
    assert launch.environment["PATH"].split(":")[0] == f"/opt/conda/{path}"


def test_an_environment_of_conda_that_nobody_can_place_is_not_guessed() -> None:
    launch = recognise(["conda", "run", "-n", "serve", "vllm", "serve", "m"])
    assert launch is not None
    assert "PATH" not in launch.environment


SCRIPT = """#!/bin/bash
MODEL=$1; TP=${2:-1}
shift 2
exec bin/python -m sglang.launch_server --model-path "$MODEL" --tp "$TP" --port ${1:-30000} "${@}"
"""


def test_the_arguments_of_a_script() -> None:
    launch = recognise_script(SCRIPT, given=("/srv/k2", "8", "31000", "--dp", "2"))
    assert launch is not None
    expected = "bin/python -m sglang.launch_server --model-path /srv/k2 --tp 8 --port 31000 31000 --dp 2"
    assert launch.argv == tuple(expected.split())


def test_arguments_that_a_script_was_not_given() -> None:
    launch = recognise_script(SCRIPT)
    assert launch is not None
    assert launch.argv[4] == "$1"
    assert unknown_in(launch.argv[4]) == ("1",)
    assert launch.argv[6:] == ("1", "--port", "30000")


def test_the_arguments_of_a_shell_line() -> None:
    launch = recognise(("/bin/sh", "-c", 'exec vllm serve "$1" --port $2', "serve", "m", "31001"))
    assert launch is not None
    assert launch.argv == ("vllm", "serve", "m", "--port", "31001")


def test_settings_that_a_script_sources() -> None:
    files = {
        "/srv/run/prod.env": "# settings\nexport MODEL=/srv/k2\nARGS=(--tp 4 --trust-remote-code)\nshift\n",
        "/etc/more": "f() { vllm serve other; }\n",
    }
    script = "cd /srv/run; . ./prod.env; source /etc/more\n" + 'vllm serve $MODEL "${ARGS[@]}" $1'
    asked: list[str] = []

    def read(path: str) -> str:
        asked.append(path)
        return files.get(posixpath.normpath(path), "")

    launch = recognise_script(script, given=("--seed=1",), read=read)
    assert launch is not None
    assert launch.argv == ("vllm", "serve", "/srv/k2", "--tp", "4", "--trust-remote-code", "--seed=1")
    assert len(asked) == 2
    recognise_script("source a\n" * 1000, read=read)
    assert len(asked) < 20


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("exec vllm serve m >>/var/log/v.log 2>&1", "/var/log/v.log"),
        ("vllm serve m > out.log 2> err.log --port 1", "/srv/err.log"),
        ("nohup vllm serve m &>/var/log/v.log &", "/var/log/v.log"),
        ("exec >> /var/log/v.log 2>&1\nvllm serve m", "/var/log/v.log"),
        ("LOG=/var/log/$NAME.log\nvllm serve m >$LOG", ""),
        ("NAME=v; vllm serve m >/var/log/$NAME.log", "/var/log/v.log"),
        ("echo start >/var/log/other.log\n: >x.log\n>y.log\nvllm serve m", ""),
        ("vllm serve m >/dev/null 2>&1 </dev/null 3>fd.log", ""),
        ("vllm serve m 2>&1 | tee -a /var/log/v.log", ""),
        ("bash -c 'exec vllm serve m >v.log'", "/srv/v.log"),
    ],
)
def test_the_file_that_a_script_sends_its_output_to(script: str, output: str) -> None:
    launch = recognise_script(f"cd /srv\n{script}\n")
    assert launch is not None
    assert launch.output == output
    assert launch.arguments[0] == "m"


@pytest.mark.parametrize(
    "command",
    [
        "/bin/su - ops -c",
        "runuser -l ops -c",
        "script -q -f -c",
        "flock /run/lock -c",
    ],
)
def test_what_takes_a_line_as_a_shell_does(command: str) -> None:
    line = "cd /srv; python -m sglang.launch_server --model-path m"
    for argv in ((*command.split(), line), (*command.split(), *line.split())):
        launch = recognise(argv)
        assert launch is not None
        assert (launch.working_directory, launch.arguments) == ("/srv", ("--model-path", "m"))


def test_runuser_starts_a_program_that_has_an_option_c_of_its_own() -> None:
    launch = recognise(["runuser", "-u", "ops", "--", "vllm", "serve", "m", "-c", "x"])
    assert launch is not None
    assert launch.argv == ("vllm", "serve", "m", "-c", "x")


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("uv run --project /srv/k vllm serve m", "/srv/k/.venv"),
        ("/usr/bin/uv run --directory=/srv/k --frozen python -m vllm.entrypoints.api_server", "/srv/k/.venv"),
        ("uv run vllm serve m", ".venv"),
        ("env UV_PROJECT_ENVIRONMENT=/opt/v uv run vllm serve m", "/opt/v"),
        ("uv run --active vllm serve m", ""),
    ],
)
def test_the_environment_that_uv_run_means(command: str, environment: str) -> None:
    launch = recognise(command.split())
    assert launch is not None
    assert launch.environment.get("VIRTUAL_ENV", "") == environment
    assert launch.environment.get("PATH", "") == (f"{environment}/bin" if environment else "")


@pytest.mark.parametrize(
    "piece", ["A=(", "shift\n", "$1 ", "A=(a b)\n", "${A:-", "${A[@]} ", "A=$A$A\n", "A+=(${A[@]})\n", "$("]
)
def test_hostile_scripts_end(piece: str) -> None:
    recognise_script("#!/bin/sh\nA=xx\n" + piece * (200_000 // len(piece)))
