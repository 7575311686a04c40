"""Kinds of secrets that issuers, programs and formats have: none survives, and what looks alike stays.

The kinds are those that public collections of such shapes list; every sample is made up.
"""

from __future__ import annotations

import pytest

from triage.evidence.redaction.redactor import Redactor

FORMS = {
    "pgp": (
        (
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBGPq1xUBCADKf3rT0sVtq9w2Zl1R8yqkGq0N3"
            "m1zJ0cQn7vX5yY2kR4wT8uB\n=a1B2\n-----END PGP PRIVATE KEY BLOCK-----"
        ),
        "lQOYBGPq1xUBCADKf3rT0sVtq9w2Zl1R8yqkGq0N3m1zJ0cQn7vX5yY2kR4wT8uB",
    ),
    "putty": (
        (
            "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPrivate-Lines: 1"
            "\nAAAAIKx3q8Zr1uYw2VtB5nM7cP9dF0gH4jL6sQ\nPrivate-MAC: 0f1e2d3c4b5a69788796a5b4c3d"
            "2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
        ),
        "AAAAIKx3q8Zr1uYw2VtB5nM7cP9dF0gH4jL6sQ",
    ),
    "putty-mac": (
        (
            "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\nAAAAIKx3q8Zr1uYw2VtB5nM7cP9d"
            "F0gH4jL6sQ\nPrivate-MAC: 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4"
            "c3d2e1f0"
        ),
        "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
    ),
    "pem-noheader": (
        (
            "key body:\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nq8Zr1"
            "uYw2VtB5nM7cP9dF0gH4jL6sQKx3AAAAIKx3q8Zr1uYw2VtB5nM7cP9dF0g\nAbC123==\n-----END PR"
            "IVATE KEY-----"
        ),
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    ),
    "pem-shortlast": (
        (
            '{"MESSAGE":"-----BEGIN RSA PRIVATE KEY-----"}\n{"MESSAGE":"MIIEvQIBADANBgkqhkiG9w'
            '0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"}\n{"MESSAGE":"q8Zr1uYw2Vt="}\n{"MESSAG'
            'E":"-----END RSA PRIVATE KEY-----"}'
        ),
        "q8Zr1uYw2Vt=",
    ),
    "url-slash-pw": ("postgres://svc:p4/ss/w0rdX9@db:5432/x", "p4/ss/w0rdX9"),
    "url-noscheme": ("connect to svc:hunter22xyz@db.internal:5432", "hunter22xyz"),
    "k8s-secret": (
        (
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: hf\ndata:\n  hf: c3VwZXJzZWNyZXQxMjM"
            "0NQ==\n  user: YWxpY2VzbWl0aDEy\ntype: Opaque"
        ),
        "c3VwZXJzZWNyZXQxMjM0NQ==",
    ),
    "k8s-secret-json": (
        '{"kind":"Secret","data":{"hf":"c3VwZXJzZWNyZXQxMjM0NQ=="}}',
        "c3VwZXJzZWNyZXQxMjM0NQ==",
    ),
    "dockerconfigjson": (
        (
            "  .dockerconfigjson: eyJhdXRocyI6eyJyZWdpc3RyeS5leGFtcGxlIjp7ImF1dGgiOiJZV3hwWTJ"
            "VNmMyVmpjbVYwIn19fQ=="
        ),
        "eyJhdXRocyI6eyJyZWdpc3RyeS5leGFtcGxlIjp7ImF1dGgiOiJZV3hwWTJVNmMyVmpjbVYwIn19fQ==",
    ),
    "netrc": ("machine api.example.org login alice password s3cr3tpw", "s3cr3tpw"),
    "netrc-lines": ("machine api.example.org\n  login alice\n  password s3cr3tpw", "s3cr3tpw"),
    "storepass": ("keytool -list -storepass changeme1 -keystore x.jks", "changeme1"),
    "keypass": ("keytool -keypass changeme1x -keystore x.jks", "changeme1x"),
    "pat": ("GIT_PAT=abcd1234efgh5678", "abcd1234efgh5678"),
    "cred": ("DB_CRED=abcd1234efgh5678", "abcd1234efgh5678"),
    "passcode": ("PASSCODE=839201", "839201"),
    "pin": ("VAULT_PIN=839201", "839201"),
    "salt": ("HASH_SALT=abcd1234efgh", "abcd1234efgh"),
    "otlp": ("OTEL_EXPORTER_OTLP_HEADERS=x-honeycomb-team=abcd1234efgh5678", "abcd1234efgh5678"),
    "otlp2": (
        "OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20YWxpY2U6c2VjcmV0MTIz",
        "YWxpY2U6c2VjcmV0MTIz",
    ),
    "sha512crypt": (
        (
            "root:$6$rounds=5000$saltsalt$Q9k3yT8vPzXw1bC5dE7fG2hJ4kL6mN8oP0qR2sT4uV6wX8yZ0aB"
            "2cD4eF6gH8iJ0kL2mN4oP6qR8sT0uV2wX4y:19000"
        ),
        ("Q9k3yT8vPzXw1bC5dE7fG2hJ4kL6mN8oP0qR2sT4uV6wX8yZ0aB2cD4eF6gH8iJ0kL2mN4oP6qR8sT0uV2wX4y"),
    ),
    "bcrypt": (
        "user alice hash $2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW",
        "EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW",
    ),
    "argon2": (
        "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b4dWRWJTmaaRObG",
        "RdescudvJCsgt3ub+b4dWRWJTmaaRObG",
    ),
    "apr1": ("admin:$apr1$Xy12abCd$Q9k3yT8vPzXw1bC5dE7fG2", "Q9k3yT8vPzXw1bC5dE7fG2"),
    "yescrypt": (
        "svc:$y$j9T$F5Jx5fExrKuPp53xLKQ..1$tnSYvahCwPBHKZUspmcxMfb0.WiB9W.zEaKlOBL35rC:",
        "tnSYvahCwPBHKZUspmcxMfb0.WiB9W.zEaKlOBL35rC",
    ),
    "de": ("Passwort: geheim4711x", "geheim4711x"),
    "fr": ("mot de passe : secret4711", "secret4711"),
    "es": ("contraseña: secreta4711", "secreta4711"),
    "pt": ("senha=secreta4711", "secreta4711"),
    "it": ("parola d'ordine: segreta4711", "segreta4711"),
    "nl": ("wachtwoord: geheim4711", "geheim4711"),
    "ru": ("пароль: sekret4711", "sekret4711"),
    "zh": ("密码\uff1amima4711abc", "mima4711abc"),
    "ja": ("パスワード: himitsu4711", "himitsu4711"),
    "ko": ("비밀번호: bimil4711", "bimil4711"),
    "pl": ("hasło: tajne4711", "tajne4711"),
    "cs": ("heslo: tajne4711", "tajne4711"),
    "tr": ("parola: gizli4711", "gizli4711"),
    "sv": ("lösenord: hemligt4711", "hemligt4711"),
    "wandb": (
        (
            "wandb: Appending key for api.wandb.ai to your netrc file: 0123456789abcdef012345"
            "6789abcdef01234567"
        ),
        "0123456789abcdef0123456789abcdef01234567",
    ),
    "wandb2": (
        "WANDB: using 0123456789abcdef0123456789abcdef01234567",
        "0123456789abcdef0123456789abcdef01234567",
    ),
    "azure": (
        "client uses abc8Q~LmN0pQrStUvWxYz0123456789abcdefghij",
        "abc8Q~LmN0pQrStUvWxYz0123456789abcdefghij",
    ),
    "gitlabrunner": (
        "glrt-t3_AbCdEfGhIjKlMnOpQrStUvWxYz012.01.abcdefg12",
        "glrt-t3_AbCdEfGhIjKlMnOpQrStUvWxYz012",
    ),
    "telegram": (
        "bot 123456789:AAEhBOweik9ai2o01QwErTyUiOpAsDfGhJk polling",
        "AAEhBOweik9ai2o01QwErTyUiOpAsDfGhJk",
    ),
    "discord-bot": (
        ("discord.py: login MTIzNDU2Nzg5MDEyMzQ1Njc4.GabCdE.AbCdEfGhIjKlMnOpQrStUvWxYz0123456789_-"),
        "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789_-",
    ),
    "pem-cut-head": (
        (
            "q8Zr1uYw2VtB5nM7cP9dF0gH4jL6sQKx3AAAAIKx3q8Zr1uYw2VtB5nM7cP9dF0g\nAbC123==\n-----E"
            "ND PRIVATE KEY-----"
        ),
        "AbC123==",
    ),
    "k8s-secret-value": ("kind: Secret\nstringData:\n  user: alicesmith\n", "alicesmith"),
}
TOKENS = {
    "1password": "A3-29326M-L64LG2TJF8C-Z2KA7-EDCMP-B3U2M",
    "airtable": ("patHoOsFaQfDPrAJ7.28a79023c39c200661fccd268a29a0d347301ef56e64dc3cd6089065c3146e80"),
    "adobe": "p8e-XNv1syeefnLOpaMxxNDi9LE1Ki3ylOjt",
    "alibaba": "LTAI6o0NpUmkVO8JmR8y4EMf",
    "artifactory": "AKCpAdggcG9qpVTzqA05MFsHl7UeioEJP2NNern66nVberACpdclsxHKifxi5CvQUSHL8iLc7",
    "artifactory-reference": "cmVmdbE6wSt9cbMOeEeUtuieeCIxVc57VVTiY96vwfRE5e32A8Yb3FKaNQyyLaMe",
    "authress": ("sc_ffhq0vy3238f.76btf.acc-4boh55qaxtjm7kv25puz.qm1mnyounii5wcerkh24rn0y75u2uecrcrwtbiz3"),
    "aws-older": "A3TMBRPJDH2G8XEMM4QL",
    "bedrock": "bedrock-api-key-TaWEITclorXwIS8HGNWkz2YS5ofA75UyiCDmO46a",
    "clickhouse": "4b1dyJKP4GY08vDuPngU30ZP7Thnp5yftIY7uq6T2b",
    "clojars": "CLOJARS_w6fc2v90r5bne1cl8vi4j7725fo279s9k769qtyntj87r5m08h6ayb8c7z8h",
    "cloudflare-origin": (
        "v1.0-f252edc87ff4adfa36d08401-64709ab7f3f386d0cd566647b5aa666347428c3dd46c036bb3"
        "a62f301f46536559314e23acedbd6b0165debbc6530a2c6a8835c4abd5c652a9f30b1789a6c52cf6"
        "3c03378ec16c0388"
    ),
    "duffel": "duffel_live_r5vJIGA9HK2gOCZPeJMQW9cy78kyEk2FINMdB8FAsHz",
    "dynatrace": (
        "dt0c01.MtxHsEPrJ7sQTVsbaXpLcOkA.WRyd5uVzdLU8ueZ5oBUEqWpcHg7ZU6Dj90pMThdNADhn3dwHjhxCiQADMqOLRAxX"
    ),
    "easypost": "EZAKVH0i8sUipEhG5tYGN2wrrNRUKSLmOrWpm8pGP6m4RcOdarqBbNcgoI",
    "facebook-page": (
        "EAACreWf6RkJpOxEEwnvvFVi13eZhCZ0N1XXnCBVqyZjxjP1MusJWV06lBPxLgD4ufIfBKKF0RDt0Xae"
        "tn6QMfStFUWSus4jowQUux6huTCKM658R6rCHZtDuoz9"
    ),
    "square": "sq0atp-7U5Hpfx1xbxRzLyYmVKxZyIj",
    "flutterwave": "FLWSECK_TEST-552e9071590d292a283a2043d77faecb-X",
    "fly": "fo1_vZ9vRiFFIZUeTN6cAW0Qw2aZy1f4D9IObHxTaZhA7A6",
    "fly-macaroon": (
        "fm2_jpVkOyRkunyBHsr4dEtUhtPjX6l6dWDbLE6ZcugmlwnLpMTEMGoCl5rzl6W7tOJ80JE2qF4z69vQ"
        "JX9fE3ozdn8iZZyHYHXrYdQ7p5a3E5xCYpTAM3kAkXuj"
    ),
    "frameio": "fio-u-q63ZHiOVNrHIdjKXlan062j0ifwrNTHg4ESDf9VLI2GtbYmAm6RfY0CncIAHFk81",
    "terraform": ("9tutzeJtDQTexe.atlasv1.RigQzRDV9Y1hPCa3yTTEpsKhDXa22ZUn5NjsOy7IVt9vWzJQfqmmyUhvt8rKEUOv"),
    "heroku": "HRKU-AAC0yfgjNgiROTllmzc1DLTfgockhBAXev60B7GiPnXj0SyEv6ANaUzNSuYY",
    "infracost": "ico-pQMHbqvmvtPCgJynGvYs0gNTkqXI5tJo",
    "maxmind": "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",
    "octopus": "API-R3H2IP889E9QKVJHASXPXKL9E3",
    "openshift": "sha256~czlY78QitWQ2V6yNLOZWbkmADcjHyhKzlvHiqpK7vdP",
    "planetscale": "pscale_tkn_YcUQYjz9FMgEwA5N6SKWAWsF4D152SA0BhKh58Hv",
    "prefect": "pnu_HHBA5bu6dsUN5BUyMuWYt4L4eph2CpG3zdES",
    "readme": "rdme_g7p8tzpex80ko0heg7ih83asptbule227zjwoctb3utu5j4nmsdmuw4bl9m8pmdgtur0iv",
    "rubygems": "rubygems_ed25793685798b37957842e2e21098d25967580541ec0f15",
    "scalingo": "tk-us-eJXP6xuQEYcHsG02ORHV8IlMXXkhMBpQCJXqYTYUpqFIo2LM",
    "sendinblue": (
        "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"
    ),
    "settlemint": "sm_pat_PdVvKS634L74lD3z",
    "shippo": "shippo_live_6cc16db755f6c6e9fef5f6cd218b8058c683b14b",
    "vault-older": "s.iXpU16hbu1yCf24yuqX4HQd7",
    "newrelic": "NRII-tzMpFcmjGMicntABEISiHTJquUCQyj4n",
    "mailchimp": "8ec4cb739bb6410f0926b3b782d3cf1f-us12",
    "mailgun": "key-ca9f875c6f5b72ad4f890c3b2c81cf9f",
    "typeform": "tfp_Uu4qebcwu5xKtq0Q4lPEyNv95xbKT8nXeOdNIANAere1D4Cy96ycZiRGrtF",
    "yandex": "AQVNxEbjMmroqRopHa7IzapJF2PWJfN0J41SYvqwg4",
    "plaid": "access-sandbox-0a6c5655-af9b-d9bf-77ba-5422393ef15d",
    "sonar": "sqp_f1b8cc88ba5a64d48546c9750f488d8cc4153169",
    "dropbox": (
        "sl.wUIZhzv5b1I2EkxetCZ31PsozUNAWjKyRSnIsZ3jCl1gJ75q4FBhju4brKKjrOzruofEmxJqJdjea"
        "5WtQfalvEiYm3AEcAwZJzJdnJNQ0Nqrm8s3pZCK18Udl2b8kIhRerwbWJt"
    ),
    "harness": "pat.eGDa4ne9xaXHqZpY7VFztZ.I0QXZXg78Ez1TAq56NbaKjou.yUxGQrZxOOCwtre5PuMg",
    "gitlab-runner-older": "GR1348941qvnVlndViItRnlwgjjxw",
    "stripe": "rk_prod_lBbazGdzgu8I18Wnb4lueWLg",
    "sendgrid": "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",
    "grafana": ("eyJrIjoiIKcG6cHOCCsLcMd7ujIDvqVNumVEJzd39iW5Fhol17PY8j1hZgGqqel3cTvqHZwDnIa3BmFr9PpegJCY"),
    "slack-config": (
        "xoxe.xoxb-1-WF4peZF2dX3J5eY8jZxlgvc7w93o1shAlNyb2RND5FefPnIOu49UmJQBya0vSu2O8rQM"
        "nSnlXikSLDcirhq8wNNwtmaeSnVTx3tXAmjeOrBx0NArDiGh8gwGTApFLhsh34s82fRPDo7EymVAMoCO"
        "exAvsLCQ9rsQSaR"
    ),
    "telegram": "123456789:ANpaAxiL53qyArvg042XLgIQgD5nfYxbxbU",
}
SERVICES = ("DATADOG_VALUE={}", '"sentry": "{}"', "okta => {}", "newrelic.license = '{}'", "yandex: {}")
INNOCENT = (
    "HEAD is now at 27dcfa74d334bc871f3234de431e71c6eeba5dd6 fix",
    "revision=27dcfa74d334bc871f3234de431e71c6eeba5dd6 model=facebook/opt-125m",
    "facebook/opt-125m: 27dcfa74d334bc871f3234de431e71c6eeba5dd6",
    "vllm/vllm-openai:v0.11.0.post1@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "linear_attn: Qwen3NextGatedDeltaNet(hidden_size=2048)",
    "ssh-ed25519 SHA256:uNiVztksCsDhcc0u9e8BrKXVhDFfrOKBnZTYpfPCpcI",
    "wandb: run at git commit 27dcfa74d334bc871f3234de431e71c6eeba5dd6",
    "http://127.0.0.1:8000/v1/models@main",
    "pip install git+https://github.com/vllm-project/vllm@27dcfa74d334bc871f3234de431e71c6eeba5dd6",
    "kind: ConfigMap\ndata:\n  level: information\n",
    "sentry-sdk==2.19.2 twilio-1.0 linear_num_value_heads=32",
    "PIN memory is not available; pin_memory=False, salt=None, path=/srv/models/k2",
    "mailgun sonar xray 1.2.3",
)


@pytest.mark.parametrize("kind", FORMS)
def test_a_secret_in_a_form_never_survives(kind: str) -> None:
    text, secret = FORMS[kind]
    assert secret not in Redactor().redact(f"INFO starting\n{text}\nINFO done\n")


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize("around", ["{}", "INFO got {} from it", '{{"value": "{}"}}', "a={};"])
def test_a_token_never_survives(kind: str, around: str) -> None:
    assert TOKENS[kind] not in Redactor().redact(around.format(TOKENS[kind]))


@pytest.mark.parametrize("form", SERVICES)
def test_a_value_that_a_service_is_named_for_never_survives(form: str) -> None:
    secret = "k3f9q0zt81m2vx7c5b4n"
    assert secret not in Redactor().redact(form.format(secret))


@pytest.mark.parametrize("text", INNOCENT)
def test_what_looks_alike_stays(text: str) -> None:
    assert Redactor().redact(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "-----END RSA PRIVATE KEY-----\nAAAA\n",
        "kind: Secret\ndata:\n  data:\n   data:\n",
        '"data": {"kind": "Secret" ',
        "Private-Lines: 9\nAAAA\n",
        "MIIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\nAAAA\n",
        "sentry_sentry.sentry-",
        "a:b@c:d@",
        "$6$AAAAAAAAAAAAAAAA$",
        "wandb login key ",
    ],
)
def test_hostile_repetition_takes_linear_time(piece: str) -> None:
    Redactor().redact(piece * (2_000_000 // len(piece)))
