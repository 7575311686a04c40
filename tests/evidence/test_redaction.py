from __future__ import annotations

import json
import string
from collections import deque
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.bounds import many
from triage.evidence.redaction.redactor import Redactor

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
LOGS = sorted((Path(__file__).parents[1] / "corpus").glob("*/log*"))


def word(low: int, high: int, letters: str = LETTERS) -> st.SearchStrategy[str]:
    return st.text(letters, min_size=low, max_size=high)


# Tokens that are known by their shape, wherever they stand.
SHAPED = st.one_of(
    word(30, 40).map("hf_{}".format),
    word(30, 40).map("api_org_{}".format),
    word(40, 60, LETTERS + "_-").map("sk-1{}".format),
    word(40, 60, LETTERS + "_-").map("sk-proj-{}1".format),
    word(40, 60, LETTERS + "_-").map("sk-ant-api03-{}".format),
    word(36, 36).map("ghp_{}".format),
    word(36, 36).map("gho_{}".format),
    word(60, 80, LETTERS + "_").map("github_pat_{}".format),
    word(20, 26).map("glpat-{}".format),
    word(16, 16, string.ascii_uppercase + string.digits).map("AKIA{}".format),
    word(16, 16, string.ascii_uppercase + string.digits).map("ASIA{}".format),
    word(35, 35, LETTERS + "_-").map("AIza{}".format),
    word(60, 90, LETTERS + "_-").map("ya29.{}".format),
    word(40, 60, LETTERS + "_-").map("nvapi-{}".format),
    word(50, 50).map("gsk_{}".format),
    word(20, 40, LETTERS + "-").map("xoxb-{}".format),
    st.tuples(word(20, 40), word(20, 60), word(20, 43)).map(lambda part: "eyJ{}.eyJ{}.{}".format(*part)),
    word(20, 26, LETTERS + "_-").map("glrt-{}".format),
    word(24, 40).map("sk_live_{}".format),
    st.tuples(word(22, 22), word(43, 43)).map(lambda part: "SG.{}.{}".format(*part)),
    word(90, 100).map("hvs.{}".format),
    word(64, 64, HEX).map("dop_v1_{}".format),
    word(27, 27).map("dckr_pat_{}".format),
    word(37, 37).map("r8_{}".format),
    word(46, 46).map("ntn_{}".format),
    word(40, 40).map("lin_api_{}".format),
    word(32, 32, HEX).map("dapi{}".format),
    word(32, 32, HEX).map("SK{}".format),
    word(58, 58, string.ascii_uppercase + string.digits).map("AGE-SECRET-KEY-1{}".format),
)

# Text around a secret that gives it away, whatever it looks like.
ANNOUNCED = [
    "python -m sglang.launch_server --api-key {} --port 1",
    "vllm serve m --api-key={}",
    "--admin-api-key {}",
    "--hf-token {}",
    "'--api-key', '{}'",
    '["--api-key", "{}"]',
    "HF_TOKEN={}",
    "export OPENAI_API_KEY={}",
    'Environment="WANDB_API_KEY={}" A=1',
    "AWS_SECRET_ACCESS_KEY={}",
    "DB_PASSWORD={} NEXT=1",
    "MY_PASSPHRASE='{}'",
    "ServerArgs(api_key='{}', port=1)",
    "api_key={},",
    '{{"api_key": "{}"}}',
    '{{\\"api_key\\": \\"{}\\"}}',
    '{{"password":"{}"}}',
    "{{'client_secret': '{}'}}",
    '{{"access_token": "{}"}}',
    "password: {}",
    "Authorization: Bearer {}",
    "authorization: Basic {}",
    "'Authorization': 'Bearer {}'",
    "curl -H 'X-Api-Key: {}'",
    "https://user:{}@registry.example/v2",
    "redis://:{}@10.0.0.1:6379/0",
    "postgresql+psycopg://svc:{}@db/x",
    "https://host/path?api_key={}&x=1",
    "non-default args: {{'api_key': ['{}'], 'tp': 4}}",
    "Namespace(api_key=['{}'], port=1)",
    '{{"api_key": ["{}"]}}',
    "api_key=SecretStr('{}')",
    "password=b'{}'",
    "(b'x-api-key', b'{}')",
    "api_key=\x1b[32m{}\x1b[0m",
    "<password>{}</password>",
    "password%3D{}",
    "api_key:\n  {}\n",
    "PGPASSWORD={} DB_PASS=",
    "DB_PASS={}",
    "db_pwd={}",
    "LITELLM_MASTER_KEY={}",
    "ENCRYPTION_KEY={}",
    "AccountName=x;AccountKey={};EndpointSuffix=core",
    "client-key-data: {}",
    "api_keys=['{}']",
    "api_keys: [{}]",
    "--api-keys {}",
    "api_keys={{'{}'}}",
    "'api_keys': frozenset({{'{}'}})",
    "api_key=[['{}']]",
    "api_key=[('{}',)]",
    '"api_keys": [\n    [\n        "{}"\n    ]\n]',
    "api_key=Secret(value='{}')",
    "api_key={{'value': '{}'}}",
    '"--api-key",\n                "{}"\n',
    '"Args": ["--api-key",\r\n  "{}"]',
    "- --api-key\n- {}\n",
    "'--api-key' '{}'",
    "--api-key \\\n    {} \\\n",
    "- name: HF_TOKEN\n  value: {}",
    '{{"name": "API_KEY", "value": "{}"}}',
    "EnvVar(name='HF_TOKEN', value='{}')",
    '<add key="ApiKey" value="{}"/>',
    "Authorization: ApiKey {}",
    "api_key: |\n  {}\n",
    "passphrase: >-\n    {}\nx: 1",
    "DB_PASSWORD := {}",
    '"apiKey": "{}"',
    "'privateKey': '{}'",
    "masterKey: {}",
    "openai_key={}",
    "<apiKey>{}</apiKey>",
]
# Where marks alone stand between, or a name that means other things as well: the secret has to be long, too.
NEAR = [
    "setenv HF_TOKEN {}",
    "os.environ['HF_TOKEN'] = '{}'",
    "('HF_TOKEN', '{}')",
    "HF_TOKEN | {} |",
    "| api_key \u2502 {} \u2502",
    "api_key ........ {}",
    "API key is {}",
    "Incorrect API key provided: {}",
    "Invalid token '{}'",
    "password for bob: {}",
    "api_key:\n  - {}\n",
    "password: |\n  {}\n",
    'password = """{}"""',
    "password: !vault {}",
    "api_key: Optional[str] = '{}'",
    '"--api-key"\n"{}"\n',
    "--api-key\n{}\n",
    "--api-key\0{}\0--port",
    "HF_TOKEN=$(echo {})",
    "{{'tokens': {{'alice': '{}'}}}}",
    "tokens=deque(['{}'])",
    "api_keys={{'{}': 'alice'}}",
    "AZURE_OPENAI_KEY={}",
    "STORAGE_KEY={}",
    "REDIS_AUTH={}",
    "'auth': ('bob', '{}')",
    "'pass': '{}'",
    "user=bob;pwd={};",
    "adminPass: {}",
    "SSHPASS={}",
    "SECRET_KEY_BASE={}",
    "HF_TOKEN_2={}",
]
# Where it has to look like a secret, too: letters and digits together.
PLACED = [
    "vllm serve m --api-key abcdefg1 {} --port 1",
    '["--api-key", "abcdefg1", "{}", "--port"]',
    "machine api.example login user password {}",
    "the password is {}",
    "curl -s -u bob:{} https://x",
    "sshpass -p {} ssh x",
    "mysql -uroot -p{} db",
    "https://{}@git.example/x/y",
    "Cookie: session={}",
    "set-cookie: sid={}; Path=/",
    "https://x.example/c?sv=2021&sig={}",
    "GET /v1/models?key={} HTTP/1.1",
    "https://hooks.slack.com/services/T0000AAAA/B0000BBBB/{}",
    "https://discord.com/api/webhooks/123456789012345678/{}",
    "https://api.telegram.org/bot123456789:{}/sendMessage",
    '{{"auths": {{"r.example": {{"auth": "{}"}}}}}}',
    "redis-cli -h cache -a {} ping",
    "requirepass {}",
    "docker login -u bob -p {} r.example",
    "echo '{}' | sudo -S systemctl restart x",
    "echo {} | docker login --password-stdin",
    "wandb login {}",
    "HTTPBasicAuth('bob', '{}')",
    "https://{}:x-oauth-basic@git.example/x",
    "callback=https%3A%2F%2Fbob%3A{}%40git.example",
    "ALERT_WEBHOOK=https://alerts.example/{}",
    "https://b.example/o?X-Amz-Credential={}&x=1",
]
SECRET = word(16, 40).filter(lambda text: any(c.isdigit() for c in text) and any(c.isalpha() for c in text))
AROUND = st.text(string.printable, max_size=40)
BLANK = st.sampled_from(["", " ", "\n", "\t", "(", '"'])


@given(token=SHAPED, before=AROUND, after=AROUND)
def test_a_token_of_a_known_shape_never_survives(token: str, before: str, after: str) -> None:
    for source in (False, True):
        assert token not in Redactor().redact(f"{before} {token} {after}", source)
        assert token not in Redactor().redact(json.dumps({"MESSAGE": f"{before} {token} {after}"}), source)


@pytest.mark.parametrize("text", ANNOUNCED)
@given(secret=SECRET, before=BLANK, after=BLANK)
def test_an_announced_secret_never_survives(text: str, secret: str, before: str, after: str) -> None:
    line = before + text.format(secret) + after
    assert secret not in Redactor().redact(line)
    assert secret not in Redactor().redact(json.dumps({"MESSAGE": line}))


@pytest.mark.parametrize("text", [*PLACED, *NEAR])
@given(secret=word(20, 40).filter(lambda text: not text.isalpha() and not text.isdecimal()))
def test_a_secret_in_a_secret_place_never_survives(text: str, secret: str) -> None:
    line = text.format(secret)
    assert secret not in Redactor().redact(line)
    assert secret not in Redactor().redact(json.dumps({"MESSAGE": line}))


@given(keys=st.lists(SECRET, min_size=2, max_size=6, unique=True))
def test_every_secret_of_a_list_goes(keys: list[str]) -> None:
    for held in (keys, set(keys), tuple(keys), [keys, keys], [(key, "a") for key in keys], deque(keys)):
        text = f"{{'model': 'm', 'api_key': {held!r}, 'port': 1}}"
        for each in (text, json.dumps({"MESSAGE": text}), json.dumps({"api_key": keys}, indent=8)):
            redacted = Redactor().redact(each)
            assert not any(key in redacted for key in keys)
        assert Redactor().redact(text).endswith(", 'port': 1}")


# Over lines, each of which is an entry of a log.
OVER_LINES = [
    '"Args": [\n    "--api-key",\n    "{}"\n  ],',
    '"api_key": [\n   "{}"\n]',
    "['--api-key',\n '{}',\n '--port']",
    "  --api-key \\\n   {} \\\n  --port",
    "api_key:\n    - {}\nport: 1",
]


LISTS = [
    "api_keys:\n{}\nport: 1",
    "args:\n- vllm\n- --api-key\n{}\n- --port",
]


@pytest.mark.parametrize("text", LISTS)
@given(keys=st.lists(SECRET, min_size=1, max_size=5, unique=True), indent=st.integers(0, 12))
def test_every_secret_of_a_list_in_yaml_goes(text: str, keys: list[str], indent: int) -> None:
    items = "\n".join(f"{' ' * indent}- {key}" for key in keys)
    for form in (str, json.dumps, in_journal, in_syslog):
        redacted = Redactor().redact(form(text.format(items)))
        hidden = "\n".join(f"{' ' * indent}- <token-{number}>" for number, _ in enumerate(keys, 1))
        assert redacted == form(text.format(hidden))


def in_journal(text: str) -> str:
    rows = (
        {"__CURSOR": "s=97f3d003b944;i=df;b=1", "_PID": "241", "MESSAGE": line, "_COMM": "python"}
        for line in text.split("\n")
    )
    return "\n".join(map(json.dumps, rows))


def in_syslog(text: str) -> str:
    return "\n".join(f"Nov 29 17:00:59 gpu01 python[241]: {line}" for line in text.split("\n"))


@pytest.mark.parametrize("text", OVER_LINES)
@given(secret=word(20, 40).filter(lambda text: not text.isalpha() and not text.isdecimal()))
def test_a_value_in_the_next_line_of_a_log_never_survives(text: str, secret: str) -> None:
    for log in (in_journal, in_syslog):
        redacted = Redactor().redact(log(text.format(secret)))
        assert redacted == log(text.format("<token-1>"))


@pytest.mark.parametrize(
    "end",
    [
        *('"api_key": [', '"--api-key",', "usage: --api-key", "{'api_key': {", '"password": "', "token: '"),
        *("password=[", "--api-key \\", "api_key", "'token',", "password,", "password:", "--hf-token"),
    ],
)
def test_where_a_message_ends_after_a_name_the_entry_stays(end: str) -> None:
    for log in (in_journal, in_syslog):
        text = log(f"{end}\nstarted with 0123456789abcdef in /srv/kimi-k2-instruct-0905")
        assert Redactor().redact(text) == text


@pytest.mark.parametrize("text", ANNOUNCED)
def test_what_stands_around_a_secret_stays(text: str) -> None:
    before, after = text.format("\0").split("\0")
    redacted = Redactor().redact(text.format("Zx81Zx81Zx81Zx81Zx81"))
    assert redacted == f"{before}<token-1>{after}"


@pytest.mark.parametrize("text", ANNOUNCED)
def test_json_stays_json(text: str) -> None:
    line = json.dumps({"MESSAGE": text.format("Zx81Zx81Zx81Zx81Zx81"), "_PID": "1"})
    assert json.loads(Redactor().redact(line))["_PID"] == "1"


PIECES = [
    *("token", "api_key", "_KEY", "--api-key", "password", "secret", "auth", "HF_TOKEN", "Bearer ", "cookie"),
    *(
        "=",
        ": ",
        " ",
        "\n",
        "'",
        '"',
        "[",
        "{",
        "(",
        "]",
        "}",
        ")",
        ",",
        "<",
        "|",
        "- ",
        "\\",
        "f(",
        "=>",
        "b'",
    ),
    *("a1b2c3d4e5f6g7h8", "word", "None", "value", "is ", "://", "@", "\x1b[31m"),
]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), min_size=1, max_size=4))
@settings(max_examples=many(1000))
def test_no_message_breaks_the_entries_of_a_journal(messages: list[str]) -> None:
    rows = [{"_PID": "1", "MESSAGE": message, "_COMM": "python"} for message in messages]
    redacted = Redactor().redact("\n".join(map(json.dumps, rows))).split("\n")
    assert [{**json.loads(row), "MESSAGE": ""} for row in redacted] == [
        {**row, "MESSAGE": ""} for row in rows
    ]


@given(st.text(), st.lists(st.sampled_from(ANNOUNCED), max_size=4))
@example("", ["--api-key \\\n    {} \\\n", "ServerArgs(api_key='{}', port=1)", "'--api-key', '{}'"])
def test_redaction_is_stable(text: str, announced: list[str]) -> None:
    redactor = Redactor()
    once = redactor.redact(text + " ".join(each.format("Zx81Zx81Zx81Zx81Zx81") for each in announced))
    assert redactor.redact(once) == once


def test_a_secret_with_blanks_in_quotes_goes_as_a_whole() -> None:
    assert (
        Redactor().redact('Environment="X_PASSWORD=two words" A=1')
        == 'Environment="X_PASSWORD=<token-1>" A=1'
    )
    assert Redactor().redact('password="two words", x=1') == 'password="<token-1>", x=1'


KEY = "-----BEGIN {0}PRIVATE KEY-----\n{1}\n-----END {0}PRIVATE KEY-----"


@given(
    kind=st.sampled_from(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]),
    body=st.lists(word(64, 64, LETTERS + "+/"), min_size=2, max_size=6),
)
def test_a_private_key_never_survives(kind: str, body: list[str]) -> None:
    key = KEY.format(kind, "\n".join(body))
    one_a_line = "".join(json.dumps({"MESSAGE": line, "_PID": "7"}) + "\n" for line in key.splitlines())
    for text in (key, json.dumps(key), repr(key), one_a_line, key[: len(key) - 40]):
        redacted = Redactor().redact(f"before {text} after")
        assert not any(line in redacted for line in body)
        assert redacted.startswith("before")
        assert redacted.endswith("after")


def test_one_value_one_placeholder_so_that_evidence_correlates() -> None:
    redactor = Redactor()
    first, second = "hf_" + "a1" * 15, "hf_" + "b2" * 15
    assert redactor.redact(f"{first} {second} {first}") == "<token-1> <token-2> <token-1>"
    assert redactor.redact(f"HF_TOKEN={second}") == "HF_TOKEN=<token-2>"


# Lines that look as if, and hold nothing secret. Most are what the engines log.
INNOCENT = [
    "Prefill batch, #new-seq: 1, #new-token: 4, #cached-token: 0, token usage: 0.00, #running-req: 0",
    "Decode batch, #running-req: 1, #token: 38, token usage: 0.02, gen throughput (token/s): 47.79",
    "max_total_num_tokens=8192, chunked_prefill_size=2048, max_prefill_tokens=16384",
    "server_args=ServerArgs(model_path='/m', tokenizer_path='/m', api_key=None, tokenizer_mode='auto')",
    "eos_token_id: 2, bos_token: '<s>', eos_token: '</s>', pad_token=<|endoftext|>",
    "ValueError: Unexpected token: end of input",
    "--tokenizer-path /srv/m --max-total-tokens 8192 --speculative-token-map /srv/map.pt",
    "VLLM_MAX_TOKENS=4096 TOKENIZERS_PARALLELISM=false",
    "loading token embedding: done",
    '"api_key": null, "api_key": "", "token": null',
    "task-1234567890123456789 disk-12345678901234567",
    "https://example.org/a:b/c@d http://127.0.0.1:30000/health",
    "Bearer authentication is off",
    "secrets of the trade",
    "PWD=/srv/app OLDPWD=/root bypass=on first_pass=True num_pass: 12",
    "docker run -u 1000:1000 -p 8000:8000",
    "pass through, password authentication is off, passphrase for the key",
    "fields = ['username', 'password', 'email']",
    "curl -u bob https://example.org/a?key=short",
    "cookie policy: lax",
    "git clone https://github.com/sgl-project/sglang ssh://git@example.org/x",
    "api_key=[] api_key=[None], 'api_key': ['']",
    "--api-key <token-1> <token-2> --port 1",
    "x ?key={key}&sig={signature}",
    'max_tokens=4096, \'max_new_tokens\': 2048, "usage": {"prompt_tokens": 12, "total_tokens": 80}',
    "KeyError: 'model.layers.0.self_attn.q_proj.weight_scale_inv'",
    "Unexpected key(s) in state_dict: 'lm_head.weight1', missing key 'model.embed_tokens.weight'",
    "key_value=3 kv_cache_key=ab12cd34ef56ab78cd90 primary_key: request_12345678 HF key -> SGLang",
    "(embed_tokens): Gemma3TextScaledWordEmbedding(262400, 2560)",
    "NUM_TOKENS = [7, 83, 2048], tokens_per_sec=123.4, token_to_kv_pool=MHATokenToKVPool(size=1024)",
    "chat_template=None, token ids: [151643, 872], cur_token * recv_topk_ids_stride0",
    'api_key = os.environ.get("OPENAI_API_KEY")',
    "Authorization: Bearer None",
    'headers = {"Authorization": f"Bearer {api_key}"}',
    "bench --tokenizer Qwen/Qwen3-235B-A22B-Instruct-2507 --request-id cmpl-0123456789abcdef",
    "cat /etc/passwd > /dev/null",
    "Invalid token\n[pod/kimi-k2-0/sglang] started with the request 0123456789abcdef",
    '{"MESSAGE":"Invalid token","_SYSTEMD_INVOCATION_ID":"c915d3cfd26845938b76a4178eaab2e1"}',
    "imagePullSecrets:\n- name: registry-2026-credentials",
    "secretKeyRef:\n  name: hf-token\n  key: HF_TOKEN",
    "prefill_delayer_single_pass = PrefillDelayerSinglePassExecutor(x)",
    "OLDPWD=/srv/kimi-k2-0905 bypass=on authors: 12 oauth=off pw=2",
    "monkey=0123456789abcdefg, turkey: a1b2c3d4e5f6a7b8c9, passes=12345678a",
]


@pytest.mark.parametrize("line", INNOCENT)
def test_innocent_lines_stay(line: str) -> None:
    assert Redactor().redact(line) == line


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.parent.name)
def test_real_logs_without_secrets_stay_as_they_are(log: Path) -> None:
    text = log.read_bytes().decode("utf-8", "surrogateescape")
    assert Redactor(keep_prompts=True).redact(text) == text


def test_a_secret_that_holds_others_stays_json() -> None:
    text = '{"secret": {"name": "kimi", "api_key": {"from": {}}}, "access_key": "a1b2c3d4"}'
    assert Redactor().redact(text) == text.replace("a1b2c3d4", "<token-1>")


def test_program_text_is_not_changed_for_its_words() -> None:
    source = "token = get_token()\npassword = 'x' * 8\nheaders = {'Authorization': f'Bearer {api_key}'}\n"
    assert Redactor().redact(source, source=True) == source


@pytest.mark.parametrize(
    "piece",
    [
        "token=",
        "token='",
        'password="',
        "-----BEGIN PRIVATE KEY-----",
        "://",
        "://a:b",
        "--api-key ",
        "sk-",
        "eyJ" + "a" * 20 + ".",
        "Authorization: ",
        "hf_",
        "a" * 1000 + "_token=",
        "\\\\'",
        "\u0130token=x",
        "curl ",
        "mysql ",
        "cookie=",
        "cookie: a=b",
        "api_key=['",
        "'a',",
        "token=[",
        "token=[a,",
        "token=['a',",
        "token=(' ",
        "password=['',",
        "password=[none,",
        "--api-key a1b2c3d4 e5f6g7h8 ",
        "password ",
        "?key=",
        "api_key={'",
        "api_key={'a':",
        "api_key=[[[[{{(",
        "tokens=f(f(f(",
        "token = ",
        "token  (((( ",
        "token_a_b_c is ",
        "token" + " " * 300,
        "token " + "a1" * 3000 + ":",
        "token\\n\\n",
        "key: ",
        "api_key: x ",
        "_KEY=",
        '"--api-key",\n',
        "--api-key \\\n",
        "api_key:\n - a\n",
        "api_key:\n",
        '"name": "token",\n "',
        "echo a|",
        "Auth('a', ",
        "webhook=https://",
        "%3A%2F%2F",
        'api_key: [" "message": "',
        "--api-key\n" + "x" * 190 + " ",
    ],
)
def test_hostile_repetition_does_not_take_for_ever(piece: str) -> None:
    Redactor().redact(piece * (1_000_000 // len(piece)))
