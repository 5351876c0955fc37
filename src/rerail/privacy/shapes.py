r"""What secrets look like, whatever they are called: the one table, one row per kind.

Each row has the kind, a pattern, an example and a near miss. Where a pattern has a group, the group
is the secret and the rest of the match is what announces it. Patterns are for RE2 over bytes, which
takes linear time whatever the text: no look-around, no back-reference.

Examples are written as forms, so that no file of ours holds what looks like a live credential:
`<a36>` stands for 36 letters and digits, `h` small hex, `d` digits, `u` capitals and digits, `l`
small letters and digits, `w` letters, digits, `_` and `-`, `b` the alphabet of base64.

The prefixes and lengths are the services' own; the list of kinds was laid beside those of gitleaks,
detect-secrets and trufflehog. Left out is what has no shape of its own (32 hex digits are as often
a checksum): that is found by the name in front of it (`names`).
"""

from __future__ import annotations

from typing import NamedTuple

from rerail.privacy.names import PRIVATE_KEY, PROGRAM, SECRET_NAME, URL_LOGIN


class Shape(NamedTuple):
    kind: str
    pattern: str
    example: str
    near_miss: str
    begins_a_word: bool = True  # False where what comes in front may be part of the same word


# Services for models, data and experiments.
_MODEL_SERVICES = (
    Shape("Anthropic key", r"sk-ant-[\w-]{16,}", "sk-ant-api03-<w93>AA", "sk-antialiasing"),
    Shape(
        "OpenAI key",
        r"sk-(?:(?:proj|svcacct|admin|None|lf|or-v1|or)-[\w-]{16,}|[A-Za-z0-9]{16,}[\w-]*)",
        "sk-proj-<w74>T3BlbkFJ<w74>",
        "sk-learn-contrib-imbalanced-ensemble",
    ),
    Shape("Hugging Face token", r"(?:hf|api_org)_[A-Za-z0-9]{16,}", "hf_<a34>", "hf_hub_download"),
    Shape("Cerebras key", r"csk-[a-z0-9]{40,}", "csk-<l48>", "csk-learn"),
    Shape("Tavily key", r"tvly-[\w-]{16,}", "tvly-dev-<a32>", "tvly-search"),
    Shape("Replicate token", r"r8_[A-Za-z0-9]{20,}", "r8_<a37>", "r8_resnet_block"),
    Shape("Groq key", r"gsk_[A-Za-z0-9]{20,}", "gsk_<a52>", "gsk_kernel_v2"),
    Shape("xAI key", r"xai-[A-Za-z0-9]{20,}", "xai-<a80>", "xai-explainability"),
    Shape("Perplexity key", r"pplx-[A-Za-z0-9]{20,}", "pplx-<a48>", "pplx-7b-online"),
    Shape("NVIDIA key", r"nvapi-[\w-]{20,}", "nvapi-<w64>", "nvapi-dev"),
    Shape("Fireworks key", r"fw_[A-Za-z0-9]{20,}", "fw_<a24>", "fw_bw_step"),
    Shape("Together key", r"tgp_v\d_[\w-]{20,}", "tgp_v1_<w43>", "tgp_v1_small"),
    Shape("LangSmith key", r"lsv2_(?:pt|sk)_[0-9a-f]{20,}\w*", "lsv2_pt_<h32>_<h10>", "lsv2_pt_x"),
    Shape("Pinecone key", r"pcsk_\w{20,}", "pcsk_<a69>", "pcsk_index"),
    Shape("Jina key", r"jina_[\w-]{40,}", "jina_<h32><w28>", "jina_embeddings_v3"),
    Shape("ElevenLabs key", r"sk_[0-9a-f]{40,}", "sk_<h48>", "sk_deadbeef"),
    Shape("Modal token", r"a[ks]-[A-Za-z0-9]{22}\b", "ak-<a22>", "ak-135-vehicle-mask"),
    Shape("RunPod key", r"rpa_[A-Z0-9]{32,}\w*", "rpa_<u42>", "rpa_NET"),
    Shape(
        "Weights & Biases key",
        r"(?:wandb_v\d_\w{16,}|local-[0-9a-f]{40}\b)",
        "local-<h40>",
        "local-rank-0",
    ),
    Shape(
        "Weights & Biases key",
        r"\bkey[\"']?\s{0,4}[:=]\s{0,4}[\"']?([0-9a-f]{40})\b",
        "wandb.login(key='<h40>')",
        "cache key: <h8>",
    ),
    Shape("Kaggle token", r"KGAT_[0-9a-f]{20,}", "KGAT_<h32>", "KGAT_v2"),
    Shape(
        "kaggle.json",
        r"""["']?key["']?[\s\x00]*:[\s\x00]*["']([0-9a-f]{32})["']""",
        '{"username":"ada","key":"<h32>"}',
        "{'key': 'encoder.weight'}",
        begins_a_word=False,
    ),
    Shape("Databricks token", r"dapi[0-9a-f]{32}(?:-\d)?", "dapi<h32>", "dapi_version"),
    Shape("Prefect key", r"pn[ub]_[A-Za-z0-9]{36}", "pnu_<a36>", "pnu_layer"),
)

# Clouds and what runs on them.
_CLOUDS = (
    Shape(
        "AWS key id",
        r"(?:AKIA|ASIA|AGPA|AIDA|AROA|AIPA|ANPA|ANVA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}\b",
        "AKIA<u16>",
        "ASIA-PACIFIC",
    ),
    Shape("AWS Bedrock key", r"ABSK[A-Za-z0-9+/]{80,}={0,2}", "ABSK<b109>", "ABSK12"),
    Shape("AWS Bedrock key", r"bedrock-api-key-[\w+/=-]{20,}", "bedrock-api-key-<b60>", "bedrock"),
    Shape("Google API key", r"AIza[\w-]{30,}", "AIza<w35>", "AIza"),
    Shape("Google access token", r"ya29\.[\w.-]{16,}", "ya29.<w60>", "ya29.x"),
    Shape("Google client secret", r"GOCSPX-[\w-]{16,}", "GOCSPX-<w28>", "GOCSPX-x"),
    Shape("Google refresh token", r"1//0[\w-]{20,}", "1//0<w60>", "1//0.5"),
    Shape(
        "Azure key",
        r"(?i)(?:AccountKey|SharedAccessKey|SharedSecret)=([^;\s\"'*\[]{4,})",
        "DefaultEndpointsProtocol=https;AccountKey=<b86>==;EndpointSuffix=x",
        "AccountKey missing",
    ),
    Shape("Azure client secret", r"[\w~.]{3}\dQ~[\w~.-]{31,34}", "<a3>8Q~<a34>", "acc 8Q~5"),
    Shape("Alibaba key id", r"LTAI[A-Za-z0-9]{16,24}\b", "LTAI<a20>", "LTAI5t"),
    Shape("Tencent key id", r"AKID[A-Za-z0-9]{32}\b", "AKID<a32>", "AKID"),
    Shape("Yandex key", r"(?:AQVN[\w-]{35,38}|t1\.[\w-]+={0,2}\.[\w-]{86})", "AQVN<w36>", "t1.x.y"),
    Shape("DigitalOcean token", r"do[opr]_v1_[0-9a-f]{32,}", "dop_v1_<h64>", "dop_v1_ab"),
    Shape("Heroku key", r"HRKU-AA[\w-]{40,}", "HRKU-AA<w58>", "HRKU-AA"),
    Shape("Fly.io token", r"(?:fo1_[\w-]{43}|fm[12][ar]?_[\w+/=]{100,})", "fo1_<w43>", "fo1_x"),
    Shape("Cloudflare key", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}", "v1.0-<h24>-<h146>", "v1.0-rc1"),
    Shape("PlanetScale key", r"pscale_(?:tkn|oauth|pw)_[\w=.-]{32,}", "pscale_pw_<w43>", "pscale"),
    Shape("Supabase key", r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,})", "sbp_<h40>", "sbp_x"),
    Shape("Netlify token", r"nfp_[A-Za-z0-9]{36}", "nfp_<a36>", "nfp_norm"),
    Shape("Terraform token", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}", "<a14>.atlasv1.<w64>", "a"),
    Shape("Vault token", r"hv[sbr]\.[\w-]{16,}", "hvs.<w92>", "hvs.weight"),
    Shape(
        "Doppler token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}", "dp.pt.<a43>", "dp.st.3"
    ),
    Shape("Pulumi token", r"pul-[0-9a-f]{40}", "pul-<h40>", "pul-ab"),
    Shape(
        "1Password key",
        r"(?:ops_eyJ[\w+/=]{100,}|A3-[A-Z0-9]{6}-[A-Z0-9]{6}(?:-[A-Z0-9]{5}){4}\b)",
        "A3-<u6>-<u6>-<u5>-<u5>-<u5>-<u5>",
        "A3-B4",
    ),
    Shape("age key", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}", "AGE-SECRET-KEY-1<u58>", "AGE-SECRET"),
    Shape("Tailscale key", r"tskey-[a-z]+-[\w-]{16,}", "tskey-auth-<a11>-<a22>", "tskey-none"),
    Shape("OpenShift token", r"sha256~[\w-]{43}", "sha256~<w43>", "sha256~none"),
)

# Code, packages, continuous integration.
_CODE = (
    Shape(
        "GitHub token",
        r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
        "ghp_<a36>",
        "ghp_x",
    ),
    Shape(
        "GitLab token",
        r"(?:gl(?:pat|rt|dt|ft|ptt|cbt|soat|imt|oas|agent|ffct)-[\w-]{16,}[\w.-]*|GR1348941[\w-]{16,})",
        "glpat-<w20>",
        "glpat-docs",
    ),
    Shape(
        "Atlassian token",
        r"(?:AT[AC]TT3[\w=-]{60,}|ATBB[A-Za-z0-9]{28,})",
        "ATATT3<w186>",
        "ATBBx",
    ),
    Shape("npm token", r"npm_[A-Za-z0-9]{30,}", "npm_<a36>", "npm_config_cache"),
    Shape("PyPI token", r"pypi-[\w-]{40,}", "pypi-AgEIcHlwaS5vcmc<w70>", "pypi-mirror"),
    Shape("RubyGems key", r"rubygems_[0-9a-f]{40,}", "rubygems_<h48>", "rubygems_1"),
    Shape("NuGet key", r"oy2[a-z0-9]{43}\b", "oy2<l43>", "oy2x"),
    Shape("crates.io token", r"cio[A-Za-z0-9]{32}\b", "cio<a32>", "cio"),
    Shape("Clojars token", r"CLOJARS_[a-z0-9]{60}", "CLOJARS_<l60>", "CLOJARS_x"),
    Shape("Docker token", r"dckr_(?:pat|oat)_[\w-]{16,}", "dckr_pat_<w27>", "dckr_pat"),
    Shape(
        "Artifactory key",
        r"(?:AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{59})",
        "AKCp<a69>",
        "AKCpx",
    ),
    Shape("Sourcegraph token", r"sgp_(?:\w{1,16}_)?[0-9a-f]{40}", "sgp_<h40>", "sgp_x"),
    Shape("SonarQube token", r"sq[apu]_[0-9a-f]{40}", "sqp_<h40>", "squ_x"),
    Shape("Buildkite token", r"bkua_[0-9a-f]{40}", "bkua_<h40>", "bkua_x"),
    Shape("CircleCI token", r"CCIP(?:AT|RJ)_\w{22,}", "CCIPAT_<a22>_<h40>", "CCIPAT"),
    Shape("Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", "PMAK-<h24>-<h34>", "PMAK-1"),
    Shape("Octopus key", r"API-[A-Z0-9]{26}\b", "API-<u26>", "API-V1"),
    Shape("ReadMe key", r"rdme_[a-z0-9]{60,}", "rdme_<l70>", "rdme_x"),
)

# Messages, payments, monitoring, documents.
_SERVICES = (
    Shape("Slack token", r"xox[a-z](?:\.xox[a-z])?-[\w-]{8,}", "xoxb-<d12>-<d12>-<a24>", "xoxb-1"),
    Shape("Slack token", r"xapp-[\w-]{16,}", "xapp-1-<u11>-<d13>-<h64>", "xapp-1"),
    Shape(
        "Slack webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{8,})",
        "https://hooks.slack.com/services/T<u8>/B<u8>/<a24>",
        "https://hooks.slack.com/services/",
    ),
    Shape(
        "Discord token",
        r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}\b",
        "M<w25>.<w6>.<w38>",
        "Module.forward.weight",
    ),
    Shape(
        "Discord webhook",
        r"discord(?:app)?\.com/api/webhooks/(\d+/[\w-]{8,})",
        "https://discord.com/api/webhooks/<d18>/<w68>",
        "https://discord.com/api/webhooks/",
    ),
    Shape(
        "Teams webhook",
        r"[\w.-]+\.webhook\.office\.com/([\w@/.-]{16,})",
        "https://lab.webhook.office.com/webhookb2/<h32>@<h32>/IncomingWebhook/<h32>/<h32>",
        "https://lab.webhook.office.com/",
    ),
    Shape(
        "Zapier webhook",
        r"hooks\.zapier\.com/hooks/catch/([\w/]{8,})",
        "hooks.zapier.com/hooks/catch/<d7>/<l7>",
        "hooks.zapier.com",
    ),
    Shape(
        "Telegram bot token",
        r"(?:\b|bot)(\d{6,16}:A[\w-]{34,})",
        "https://api.telegram.org/bot<d10>:A<w34>/sendMessage",
        "1234567890:AB",
        begins_a_word=False,
    ),
    Shape("Twilio key", r"(?:SK|AC)[0-9a-f]{32}\b", "SK<h32>", "ACdeadbeef"),
    Shape("SendGrid key", r"SG\.[\w-]{16,}\.[\w-]{16,}", "SG.<w22>.<w43>", "SG.x.y"),
    Shape("Mailgun key", r"key-[0-9a-f]{32}\b", "key-<h32>", "key-value"),
    Shape("Mailchimp key", r"[0-9a-f]{32}-us\d{1,2}\b", "<h32>-us12", "abc-us12"),
    Shape("Brevo key", r"xkeysib-[0-9a-f]{64}-\w{16}", "xkeysib-<h64>-<a16>", "xkeysib-1"),
    Shape(
        "Stripe key",
        r"(?:[srp]k_(?:live|test|prod)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{16,})",
        "sk_live_<a24>",
        "sk_test_set",
    ),
    Shape(
        "Square token", r"(?:sq0[a-z]{3}-[\w-]{22,}|EAAA[\w-]{40,60})", "sq0csp-<w43>", "sq0abc-1"
    ),
    Shape("Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "shpat_<h32>", "shpat_x"),
    Shape("Facebook token", r"EAA[A-Za-z0-9]{80,}", "EAAM<a120>", "EAAMx"),
    Shape("New Relic key", r"NR(?:AK|JS|II|RA)-[\w-]{19,}", "NRAK-<u27>", "NRAK-1"),
    Shape(
        "Grafana token",
        r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_[A-Za-z0-9+/]{32,}={0,2})",
        "glsa_<a32>_<h8>",
        "glc_shader",
    ),
    Shape("Sentry token", r"sntry[su]_[\w+/=]{40,}", "sntryu_<h64>", "sntrys_x"),
    Shape(
        "Dynatrace token",
        r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}",
        "dt0c01.<u24>.<u64>",
        "dt0c01.A",
    ),
    Shape(
        "Healthchecks address",
        r"hc-ping\.com/([0-9a-f]{8}-[0-9a-f-]{27})",
        "https://hc-ping.com/<h8>-<h4>-<h4>-<h4>-<h12>",
        "https://hc-ping.com/docs",
        begins_a_word=False,
    ),
    Shape("Honeycomb key", r"hc[a-z]ik_[a-z0-9]{50,}", "hcaik_<l58>", "hcaik_x"),
    Shape("PostHog key", r"ph[cx]_[A-Za-z0-9]{40,}", "phx_<a43>", "phx_x"),
    Shape("Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}", "lin_api_<a40>", "lin_api_v1"),
    Shape("Notion key", r"(?:ntn_|secret_)[A-Za-z0-9]{24,}", "ntn_<d11><a35>", "secret_sauce"),
    Shape("Airtable token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b", "pat<a14>.<h64>", "patch.embed"),
    Shape(
        "Harness token", r"[ps]at\.[\w-]{22}\.\w{24}\.\w{20}\b", "pat.<a22>.<a24>.<a20>", "pat.x"
    ),
    Shape(
        "HubSpot token",
        r"pat-(?:na|eu|ap)\d-[0-9a-f]{8}-[0-9a-f-]{27}",
        "pat-na1-<h8>-<h4>-<h4>-<h4>-<h12>",
        "pat-na1-x",
    ),
    Shape("Contentful token", r"CFPAT-[\w-]{43}", "CFPAT-<w43>", "CFPAT-x"),
    Shape(
        "PayPal token",
        r"access_token\$(?:production|sandbox)\$([0-9a-z]{16}\$[0-9a-f]{32})",
        "access_token$production$<l16>$<h32>",
        "access_token$production$x",
    ),
    Shape("Figma token", r"fig[dor]_[\w-]{40,}", "figd_<w43>", "figd_x"),
    Shape("Typeform token", r"tfp_[\w.=-]{40,}", "tfp_<w59>", "tfp_layers"),
    Shape("Dropbox token", r"sl\.[\w=-]{100,}", "sl.<w135>", "sl.a"),
    Shape("EasyPost key", r"EZ[AT]K[A-Za-z0-9]{54}\b", "EZAK<a54>", "EZAKx"),
    Shape("Shippo token", r"shippo_(?:live|test)_[0-9a-f]{40}", "shippo_live_<h40>", "shippo_test"),
    Shape(
        "Flutterwave key",
        r"FLW(?:SECK|PUBK)(?:_TEST)?-\w{12,}(?:-X)?",
        "FLWSECK_TEST-<h32>-X",
        "FLW-1",
    ),
)

# What has the same shape whoever gave it out.
_GENERAL = (
    Shape(
        PRIVATE_KEY,
        r"-{4,5} ?BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}(?:[^-]|-[^-])*"
        r"(?:-{4,5} ?END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5})?",
        "-----BEGIN RSA PRIVATE KEY-----\n<b64>\n<b64>\n<b20>=\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----",
        begins_a_word=False,
    ),
    Shape(
        PRIVATE_KEY,
        r"PuTTY-User-Key-File-\d:(?:[^\n]*\n){1,40}?Private-Lines: \d+\r?\n((?:[\w+/=]+\r?\n?)+)",
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n<b44>\n",
        "PuTTY-User-Key-File-3: ssh-ed25519",
    ),
    Shape(
        PRIVATE_KEY,
        r"\\{0,7}\"kty\\{0,7}\"[^{}]{1,900}\\{0,7}\"[dk]\\{0,7}\"\s{0,4}:\s{0,4}\\{0,7}\"([\w-]{20,})",
        '{"kty":"oct","k":"<w43>"}',
        '{"kty":"RSA","n":"x"}',
        begins_a_word=False,
    ),
    Shape(
        "password hash",
        r"(?:\$(?:1|5|6|y|gy|7|apr1|2[abxy]|argon2(?:id|i|d)|scrypt|pbkdf2-sha\d+)\$[\w./$,=+-]{20,}"
        r"|\$[PHS]\$[./\w]{31,}|\{(?:S?SHA\d{0,3}|S?MD5)\}[\w+/]{20,}={0,2}"
        r"|pbkdf2_sha\d+\$\d+\$[\w./+=$]{20,}|(?:pbkdf2:sha\d+:\d+|scrypt:\d+:\d+:\d+)\$\w+\$[0-9a-f]{32,}"
        r"|\bsha(?:1|256):[0-9a-f]{12}:[0-9a-f]{40,}|:[0-9a-f]{32}:[0-9a-f]{32}:::)",
        "$6$rounds=5000$<a16>$<a86>",
        "$1$x",
        begins_a_word=False,
    ),
    Shape(
        "netrc",
        r"(?:machine\s+\S+|default)\s+login\s+\S+(?:\s+account\s+\S+)?\s+password\s+(\S+)",
        "machine hub.example.org\n  login ada\n  password <a14>",
        "the machine needs a login and a password",
    ),
    Shape(
        "JSON web token",
        r"(?:[ps]k\.)?eyJ[\w-]{6,}\.(?:[\w-]{6,}|\.[\w-]{6,})(?:\.[\w-]*){0,3}",
        "eyJ<a30>.eyJ<a40>.<w43>",
        "eyJ.x",
    ),
    Shape("encoded token", r"eyJ[\w+/]{36,}={0,2}", "eyJhcGlfYWRkcmVzcyI6<b60>", "eyJhbGc"),
    Shape(
        URL_LOGIN,
        r"[A-Za-z][A-Za-z0-9+.-]{1,30}://([^\s/\"'<>`\x00]+)@",
        "postgres://ada:<a12>@db.example.org:5432/runs",
        "https://example.org/@ada",
    ),
    Shape(
        URL_LOGIN,  # with a `/` in the password, without the scheme, or in front of it
        r"(?:://[^\s/:@\"'<>\[\x00]{0,64}:([^\s\"'<>@/\x00]*[^\d\s\"'<>@/\x00][^\s\"'<>@/\x00]*/[^\s\"'<>@\x00]*)@[\w.-]"
        r"|//[^\s/:@\"'<>\[\x00]{1,64}:([^\s/\"'<>@\x00]{3,})@[\w.-]"
        r"|[\w.-]{1,64}:([^\s/:@\"'<>\x00]{6,})@https?://)",
        "//ada:<a12>@db.example.org/runs",
        "//db.example.org:5432/@ada",
        begins_a_word=False,
    ),
    Shape(
        SECRET_NAME,
        r"(?i)(?:auth\s?=\s?\(|(?:auth|login|authenticate)\()\s{0,4}(?:\w{1,40}=)?[\"'][^\"'\n]{0,80}[\"'],"
        r"\s{0,4}(?:\w{1,40}=)?[\"']([^\"'\n]{3,})[\"']",
        "requests.get(url, auth=('ada', '<a12>'))",
        "login('ada')",
        begins_a_word=False,
    ),
    Shape(
        "secret in a URL",
        r"(?i)[?&;](?:X-Amz-(?:Signature|Credential|Security-Token)|X-Goog-(?:Signature|Credential)|sig"
        r"|signature|access_token|auth|token|api_?key|key|password|passwd|pwd|secret|code)="
        r"([^&\s\"'<>*\[\x00]{6,})",
        "https://bucket.example.org/x?X-Amz-Signature=<h64>&part=2",
        "https://example.org/?page=12",
        begins_a_word=False,
    ),
    Shape(
        "authorization header",
        r"(?i)authorization[\"']?[\s\x00]{0,4}[:=][\s\x00]{0,4}[\"']?"
        r"(?:(?:bearer|basic|digest|negotiate|token|apikey|splunk|ssws|hawk|ntlm|oauth|geniekey|key)\s+)?"
        r"([\w.~+/=:-]{6,})",
        "Authorization: Basic <b24>==",
        "authorization: none",
    ),
    Shape(
        "authorization header",
        r"(?i)digest\s[^\n]{0,400}\bresponse=[\"']?([0-9a-f]{32,})",
        'Digest username="ada", realm="x", response="<h32>"',
        "digest sha256 response=200",
    ),
    Shape("bearer token", r"(?i)bearer\s+([\w.~+/=-]{8,})", "bearer <a40>", "bearer of news"),
    Shape(
        "cookie",
        r"(?i)(?:set-)?cookie[\"']?[\s\x00]{0,4}:[\s\x00]{0,4}[\"']?(?:[\w.-]+=[^\s\"',;]{0,5};\s?){0,8}"
        r"([\w.-]+=[^\s\"',]{6,})",
        "Cookie: session=<a32>",
        "cookie: none",
    ),
    Shape(
        SECRET_NAME,
        r"(?i)<(?:[\w.-]{0,40}:)?(?:password|secret|token|api_?key)>([^<\s]{3,})</",
        "<password><a12></password>",
        "<token></token>",
        begins_a_word=False,
    ),
    Shape(
        PROGRAM,
        r"curl\s(?:[^\n|;]*\s)?(?:-u\s*|--user[\s=]+|--proxy-user[\s=]+|-U\s*)[\"']?[^\s:\"']{0,64}:([^\s\"']+)",
        "curl -s -u ada:<a12> https://example.org",
        "curl -u ada https://example.org",
    ),
    Shape(
        PROGRAM,
        r"sshpass\s+(?:-v\s+)?-p\s*[\"']?([^\s\"']+)",
        "sshpass -p <a12> ssh -p 22 node",
        "sshpass -e ssh node",
    ),
    Shape(
        PROGRAM,
        r"(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|(?:docker|podman|nerdctl)\slogin)"
        r"\s(?:[^\n|;]*\s)?-p([^\s\"'=]{3,})",
        "mysql -u ada -p<a12> runs",
        "mysql -u ada -p runs",
    ),
    Shape(
        PROGRAM,
        r"(?:(?:docker|podman|nerdctl|skopeo|buildah|oras|az|cf|oc)\s(?:[^\n|;]*\s)?login"
        r"|twine\supload|helm\sregistry\slogin|mongosh?|mongodump|mongorestore|kinit)"
        r"\s(?:[^\n|;]*\s)?-p[\s=]+[\"']?([^\s\"'-][^\s\"']*)",
        "docker login -u ada -p <a12> hub.example.org",
        "docker run -p 8080:80 image",
    ),
    Shape(
        PROGRAM,
        r"(?:redis-cli\s(?:[^\n|;]*\s)?-a|(?:un)?zip\s(?:[^\n|;]*\s)?-P|sqlcmd\s(?:[^\n|;]*\s)?-P"
        r"|ldap\w+\s(?:[^\n|;]*\s)?-w)[\s=]*[\"']?([^\s\"'-][^\s\"']*)",
        "redis-cli -h db -a <a12> ping",
        "zip -r out.zip folder",
    ),
    Shape(
        PROGRAM,
        r"(?:wandb\s+login|ngrok\s+(?:config\s+add-)?authtoken)\s+(?:--?[\w=.:/-]+\s+)*(\w{20,})",
        "wandb login --relogin <h40>",
        "wandb login --host example",
    ),
    Shape(
        PROGRAM,
        r"(?:htpasswd\s+-\w*b\w*\s+\S+\s+\S+\s+|ssh-keygen\s(?:[^\n|;]*\s)?-[NP]\s*"
        r"|sudo\s[^\n|;]{0,80}<<<\s*)[\"']?([^\s\"']{3,})",
        "htpasswd -bc users.txt ada <a12>",
        "htpasswd -c users.txt ada",
    ),
    Shape(
        PROGRAM,
        r"(?:echo|printf)\s+(?:-n\s+)?[\"']?(?:[\w.-]+:)?([^\s\"'|:]{3,})[\"']?\s*\|[^\n|;]{0,80}"
        r"(?:--password-stdin|--with-token|chpasswd|sudo\s+-S)",
        "echo <a12> | docker login -u ada --password-stdin",
        "echo hello | tee file",
    ),
    Shape(
        PROGRAM,
        r"(?:sqlplus\s+(?:-\w+\s+)*|jdbc:oracle:thin:)\w+/([^@\s\"']{3,})@",
        "sqlplus ada/<a12>@db",
        "sqlplus /nolog",
    ),
    Shape(
        PROGRAM,
        r"(?i)identified\s+by\s+(?:password\s+)?[\"']([^\"'\n]{3,})",
        "CREATE USER ada IDENTIFIED BY '<a12>'",
        "identified by name",
    ),
    Shape(
        PROGRAM,
        r"(?:7z[ar]?\s(?:[^\n|;]*\s)?-p|openssl\s(?:[^\n|;]*\s)?-pass(?:in|out)?\s+pass:"
        r"|smbclient\s(?:[^\n|;]*\s)?-U\s*[^\s%]+%)[\"']?([^\s\"']+)",
        "openssl enc -aes-256-cbc -pass pass:<a12> -in x",
        "openssl enc -aes-256-cbc -in x",
    ),
)

SHAPES: tuple[Shape, ...] = (*_MODEL_SERVICES, *_CLOUDS, *_CODE, *_SERVICES, *_GENERAL)
