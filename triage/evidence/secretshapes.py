"""Secrets that are known by their shape, wherever they stand.

Each shape is a text that is in every one of them, and the whole; where the pattern has a group, only that is
secret. The shapes are those that the issuers of the tokens document.
"""

from __future__ import annotations

import re

_SHAPES = (
    ("hf_", r"hf_[A-Za-z0-9]{16,128}"),
    ("api_org_", r"api_org_[A-Za-z0-9]{16,128}"),
    ("sk-", r"sk-(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{16,256}"),
    ("ghp_", r"ghp_[A-Za-z0-9]{20,255}"),
    ("gho_", r"gho_[A-Za-z0-9]{20,255}"),
    ("ghu_", r"ghu_[A-Za-z0-9]{20,255}"),
    ("ghs_", r"ghs_[A-Za-z0-9]{20,255}"),
    ("ghr_", r"ghr_[A-Za-z0-9]{20,255}"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,255}"),
    ("gl", r"gl(?:pat|rt|cbt|dt|ptt|soat|ft|imt|agent|oas|ffct)-[A-Za-z0-9_.-]{16,256}"),
    ("AKIA", r"AKIA[0-9A-Z]{16}(?![0-9A-Z])"),
    ("ASIA", r"ASIA[0-9A-Z]{16}(?![0-9A-Z])"),
    ("Signature=", r"Signature=([0-9a-f]{64,1024})"),
    ("X-", r"X-(?:Amz|Goog)-(?:Credential|Security-Token)=([^&\s\"'\\]{16,4096})"),
    ("sig=", r"sig=(?<=[?&;]sig=)([A-Za-z0-9%+/=_-]{20,256})"),
    ("key=", r"key=(?<=[?&]key=)([A-Za-z0-9_-]{16,256})"),
    ("AIza", r"AIza[0-9A-Za-z_-]{30,64}"),
    ("ya29.", r"ya29\.[0-9A-Za-z_-]{20,1024}"),
    ("GOCSPX-", r"GOCSPX-[0-9A-Za-z_-]{20,64}"),
    ("nvapi-", r"nvapi-[0-9A-Za-z_-]{20,256}"),
    ("gsk_", r"gsk_[A-Za-z0-9]{20,128}"),
    ("xai-", r"xai-[A-Za-z0-9]{40,128}"),
    ("r8_", r"r8_[A-Za-z0-9]{30,64}"),
    ("fw_", r"fw_[A-Za-z0-9]{20,64}"),
    ("tgp_v1_", r"tgp_v1_[A-Za-z0-9_-]{20,128}"),
    ("pplx-", r"pplx-[A-Za-z0-9]{40,128}"),
    ("lsv2_", r"lsv2_(?:pt|sk)_[a-z0-9_]{32,128}"),
    ("dapi", r"dapi[0-9a-f]{32}(?![0-9a-f])"),
    ("xox", r"xox[abeprs]-[A-Za-z0-9-]{10,256}"),
    ("xapp-", r"xapp-[A-Za-z0-9-]{20,256}"),
    ("hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{10,256})"),
    ("/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/([0-9]{1,24}/[A-Za-z0-9_-]{20,256})"),
    ("telegram.org/bot", r"api\.telegram\.org/bot([0-9]{5,16}:[A-Za-z0-9_-]{20,64})"),
    ("webhook.office.com/", r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/_-]{20,512})"),
    ("npm_", r"npm_[A-Za-z0-9]{30,64}"),
    ("pypi-", r"pypi-[A-Za-z0-9_-]{30,512}"),
    ("dckr_", r"dckr_[po]at_[A-Za-z0-9_-]{20,128}"),
    ("_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("hv", r"hv[sbr]\.[A-Za-z0-9_-]{20,512}"),
    ("k_live_", r"[rs]k_live_[A-Za-z0-9]{16,256}"),
    ("k_test_", r"[rs]k_test_[A-Za-z0-9]{16,256}"),
    ("whsec_", r"whsec_[A-Za-z0-9+/=]{16,256}"),
    ("SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    ("SK", r"SK[0-9a-f]{32}(?![0-9a-f])"),
    ("ntn_", r"ntn_[A-Za-z0-9]{40,64}"),
    ("lin_api_", r"lin_api_[A-Za-z0-9]{32,64}"),
    ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{50,64}"),
    ("eyJ", r"eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{0,1024}"),
    ('"auth', r"\"auth\\{0,3}\"\s{0,4}:\s{0,4}\\{0,3}\"([A-Za-z0-9+/=]{12,4096})"),
)
SHAPES = tuple((inside, re.compile(pattern)) for inside, pattern in _SHAPES)
