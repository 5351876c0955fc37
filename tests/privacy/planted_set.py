r"""240 secrets to plant, in eight places, written from public knowledge of token formats.

The list does not come from the table of shapes: it says what people have, not what is found. Every
fourth entry is held out: rules are tuned on the other 180, and the score of the 60 tells how well
they carry over. Each line is `kind :: form`; `planted.make` fills the blanks of a form at run time,
so no file of the repository holds a text that looks like a live credential. `\n` and `\e` in a form
are a new line and the escape character.
"""

# ruff: noqa: E501 - an entry is one line
from __future__ import annotations

import random
from typing import NamedTuple

from planted import Planted, make

_SHORTEST = 6  # of a blank whose filling is a secret; shorter ones are part of a longer form

_ENVIRONMENT = r"""
Hugging Face token :: HF_TOKEN=hf_<a34>
Weights & Biases key :: WANDB_API_KEY=<h40>
OpenAI key :: OPENAI_API_KEY=sk-proj-<w48>T3BlbkFJ<w48>
AWS secret key :: AWS_SECRET_ACCESS_KEY=<b40>
AWS session token :: AWS_SESSION_TOKEN=IQoJb3JpZ2luX2Vj<b120>
AWS key id :: SOMETHING_ELSE=AKIA<u16>
Azure client secret :: ARM_CLIENT_SECRET=<a3>8Q~<a34>
Google API key :: MAPS=AIza<w35>
Comet key :: COMET_API_KEY=<a25>
Neptune token :: NEPTUNE_API_TOKEN=eyJhcGlfYWRkcmVzcyI6<b80>
ClearML key :: CLEARML_API_SECRET_KEY=<a50>
MLflow password :: MLFLOW_TRACKING_PASSWORD=<a12>
Database URL :: DATABASE_URL=postgresql://ada:<a16>@db.example.org:5432/runs
Redis URL :: BROKER=redis://:<a20>@cache.example.org:6379/0
glued name :: PGPASSWORD=<a12>
glued name :: SMTPPASS=<a8>
Datadog key :: DD_API_KEY=<h32>
Django secret :: DJANGO_SECRET_KEY=<w50>
Kaggle key :: KAGGLE_KEY=<h32>
Docker password :: DOCKER_PASSWORD=<a14>
GitHub token :: CI_PUSH=ghp_<a36>
Cohere key :: CO_API_KEY=<a40>
Sentry DSN :: SENTRY_DSN=https://<h32>@o1234.ingest.sentry.io/5678
Vercel token :: VERCEL_TOKEN=<a24>
proxy login :: HTTPS_PROXY=http://ada:<a12>@proxy.example.org:3128
Cloudflare token :: CF_API_TOKEN=<w40>
Encryption key :: FERNET_KEY=<w43>=
Snowflake password :: SNOWFLAKE_PASSWORD=<a13>
Rails master key :: RAILS_MASTER_KEY=<h32>
Linode token :: LINODE_CLI_TOKEN=<h64>
"""

_FLAGS = r"""
password :: --password <a12>
password :: --db-password=<a12>
Hugging Face token :: --hub_token hf_<a34>
Weights & Biases key :: --wandb-key=<h40>
generic key :: --api-key <a32>
generic key :: --apikey=<a32>
AWS secret key :: --aws-secret-access-key <b40>
Anthropic key :: --judge sk-ant-api03-<w93>AA
OpenRouter key :: --model-key=sk-or-v1-<h64>
Cerebras key :: --provider csk-<l48>
client secret :: --client-secret <a24>
access token :: --access-token=<w43>
auth token :: --auth-token <h40>
passphrase :: --passphrase=<a18>
Mongo URL :: --mongo mongodb+srv://ada:<a15>@cluster0.example.net/x
MySQL URL :: --storage=mysql+pymysql://optuna:<a12>@db.example.org/optuna
Azure SAS :: --container https://x.blob.core.windows.net/c?sv=2022-11-02&sr=c&sig=<a43>%3D
signed URL :: --data=https://b.s3.example.org/x?X-Amz-Credential=AKIA<u16>%2F2026&X-Amz-Signature=<h64>
GitLab token :: --git-token glpat-<w20>
Slack webhook :: --alert=https://hooks.slack.com/services/T<u8>/B<u8>/<a24>
Telegram token :: --bot <d10>:AA<w33>
session cookie :: --cookie=sessionid=<l32>
JSON web token :: --jwt eyJ<a30>.eyJ<a40>.<w43>
private key :: --ssh-private-key=-----BEGIN OPENSSH PRIVATE KEY-----\n<b64>\n<b64>\n-----END OPENSSH PRIVATE KEY-----
encryption key :: --encryption-key <b43>=
short option :: --pw=<a9>
Databricks token :: --dbx dapi<h32>
Voyage key :: --voyage-api-key=pa-<w43>
ngrok token :: --authtoken <a27>_<a20>
signing key :: --signing-key=<h64>
"""

_LINES = r"""
Hugging Face token :: Using token hf_<a34> for the hub
OpenAI key :: Incorrect API key provided: sk-<a48>. You can find your API key at the site
Groq key :: groq client ready (gsk_<a52>)
xAI key :: switched to xai-<a80>
Replicate token :: logged in with r8_<a37>
GitHub token :: remote: pushing with github_pat_<a22>_<a59>
npm token :: npm notice auth npm_<a36>
PyPI token :: uploading with pypi-AgEIcHlwaS5vcmc<w70>
Google token :: gcloud: access token ya29.<w100>
password :: the password is: <a12>
password :: Password: <a10>
wandb key :: wandb: API key = <h40>
AWS pair :: export AWS_SECRET_ACCESS_KEY=<b40>
Vault token :: Vault login succeeded, token hvs.<w92>
Stripe key :: payment client sk_live_<a24>
SendGrid key :: mail via SG.<w22>.<w43>
Twilio key :: twilio SK<h32> active
Discord token :: bot starts with M<w25>.<w6>.<w38>
bcrypt hash :: ada $2b$12$<a53>
shadow hash :: ada:$6$rounds=5000$<a16>$<a86>:19000:0:99999:7:::
private key :: -----BEGIN EC PRIVATE KEY-----\n<b64>\n<b64>\n<b20>==\n-----END EC PRIVATE KEY-----
PGP key :: -----BEGIN PGP PRIVATE KEY BLOCK-----\n\n<b64>\n<b64>\n=<b4>\n-----END PGP PRIVATE KEY BLOCK-----
age key :: # created key AGE-SECRET-KEY-1<u58>
coloured value :: \e[36mdb_password\e[0m=\e[33m<a7>\e[1m<a7>\e[0m
glued name :: SMTPPASS=<a8>
assignment :: self.secret_key := '<a26>'
Terraform token :: credentials <a14>.atlasv1.<w64> accepted
HubSpot token :: crm pat-na1-<h8>-<h4>-<h4>-<h4>-<h12> ready
Contentful token :: cms CFPAT-<w43> ready
PayPal token :: access_token$production$<l16>$<h32> ok
"""

_DOCUMENTS = r"""
JSON :: {"user": "ada", "password": "<a12>", "port": 5432}
JSON :: {"openai_api_key": "<a40>", "model": "x"}
JSON, nested :: {"auth": {"client_secret": "<a24>"}}
JSON, escaped :: "{\"token\": \"<a32>\"}"
JSON, several lines :: {\n  "db": {\n    "passwd": "<a12>"\n  }\n}
Google service account :: {"type": "service_account", "private_key_id": "<h40>", "private_key": "-----BEGIN PRIVATE KEY-----\\n<b64>\\n<b64>\\n-----END PRIVATE KEY-----\\n"}
Docker config :: {"auths": {"hub.example.org": {"auth": "<b40>=="}}}
JSON list :: {"api_keys": ["<a30>", "<a30>"]}
JSON list, one :: "tokens": ["<a32>"]
kaggle.json :: {"username":"ada","key":"<h32>"}
YAML :: db:\n  password: <a12>\n  port: 5432
YAML, quoted :: api_token: "<a40>"
YAML block :: credentials: |\n  <a24>\n  <a24>\n  <a24>\nnext: 1
YAML list :: passwords:\n  - <a12>\n  - <a12>\nnext: 1
YAML, kubernetes secret :: kind: Secret\ndata:\n  password: <b24>==
kubeconfig :: users:\n- name: ada\n  user:\n    client-key-data: LS0tLS1CRUdJTi<b120>==
TOML :: [auth]\ntoken = "<a32>"
TOML, dotted :: registry.token = "cio<a32>"
TOML :: api-key = '<a28>'
INI :: [default]\naws_secret_access_key = <b40>
INI :: [client]\nuser=ada\npassword=<a12>
pypirc :: [pypi]\nusername = __token__\npassword = pypi-<w70>
WireGuard :: [Interface]\nPrivateKey = <b43>=
netrc :: machine api.wandb.ai\n  login user\n  password <h40>
XML :: <password><a12></password>
XML attribute :: <server username="ada" password="<a12>"/>
properties :: spring.datasource.password=<a12>
dotenv :: SECRET_KEY="<a50>"
wifi :: psk="<a14>"
HCL :: secret_key = "<b40>"
"""

_TABLES = r"""
box :: │ db_password │ <a14> │
box :: ┃ api_key ┃ <a32> ┃
box with blanks :: │   hf_token    │  <a30>   │
pipes :: | password | <a12> |
pipes :: | wandb_api_key | <h40> |
pipes, no edges :: secret | <a20>
Markdown :: | AWS_SECRET_ACCESS_KEY | `<b40>` |
Markdown :: | client_secret | **<a24>** |
blanks :: db_password      <a14>
blanks :: api_key          <a32>
tab :: access_key\t<a20>
tab :: smtp_password\t<a9>
three columns :: | 3 | password | <a12> | string |
three columns :: │ auth │ secret_key │ <a40> │ str │
double box :: ║ passphrase ║ <a16> ║
ascii box :: +----------+\n| password | <a10> |\n+----------+
shape in a cell :: │ login │ ghp_<a36> │
shape in a cell :: | key | sk-ant-api03-<w93>AA |
shape in columns :: ada    hf_<a34>    write
CSV :: name,password\nada,<a12>
CSV :: user;api_key;role\nada;<a32>;admin
column :: user   password\n----   --------\nada    <a12>
column in pipes :: | user | password |\n|------|----------|\n| ada | <a12> |
column in a box :: │ name │ api_key │\n├──────┼─────────┤\n│ prod │ <a32> │
key: blanks :: secret_key:          <a40>
dots :: db_password .......... <a14>
short value :: │ password │ <a6> │
alphabetic value :: │ password │ <x14> │
alphabetic value :: db_password      <x14>
coloured cell :: │ \e[1mdb_password\e[0m │ \e[32m<a14>\e[0m │
"""

_PATHS = r"""
Hugging Face token :: /data/runs/hf_<a34>/model.pt
GitHub token :: /tmp/clone-ghp_<a36>/x
GitLab token :: cache_glpat-<w20>.bin
AWS key id :: s3_AKIA<u16>.log
OpenAI key :: out/sk-proj-<w64>.json
Anthropic key :: out/sk-ant-api03-<w93>AA.json
Slack token :: /var/log/xoxb-<d12>-<d12>-<a24>.txt
Databricks token :: /dbfs/dapi<h32>/x
npm token :: npm_<a36>.tgz
JSON web token :: /tmp/eyJ<a30>.eyJ<a40>.<w43>.txt
name in a path :: /runs/password=<a12>/step.pt
name in a path :: runs/lr=0.1,api_key=<a32>,seed=1/x
Hydra folder :: outputs/db.password=<a14>,lr=0.1/train.log
Google key :: tiles/AIza<w35>/3.png
Stripe key :: dump/sk_live_<a24>.csv
SendGrid key :: mails/SG.<w22>.<w43>.eml
DigitalOcean token :: do/dop_v1_<h64>
Vault token :: vault/hvs.<w92>
Groq key :: logs/gsk_<a52>.log
Replicate token :: logs/r8_<a37>.log
PyPI token :: dist/pypi-AgEIcHlwaS5vcmc<w70>.whl
Docker token :: docker/dckr_pat_<w27>
W&B key :: wandb/local-<h40>/x
Tailscale key :: ts/tskey-auth-<a11>-<a22>
Grafana token :: grafana/glsa_<a32>_<h8>
Shopify token :: shop/shpat_<h32>.json
Linear key :: lin_api_<a40>.txt
Airtable token :: base/pat<a14>.<h64>.csv
Pulumi token :: stacks/pul-<h40>
git credentials :: /home/x/.git-credentials: https://ada:<a20>@git.example.org
"""

_EXCEPTIONS = r"""
repr of arguments :: Namespace(lr=0.1, api_key='<a32>', epochs=3)
repr of a dictionary :: KeyError: {'user': 'ada', 'password': '<a12>'}
repr of bytes :: ValueError: {b'token': b'<a32>'}
repr of a data class :: Settings(host='db', db_password='<a12>', port=5)
repr of pydantic :: Settings hf_token=SecretStr('<a30>') lr=1
repr of a list :: CalledProcessError: Command '['login', '--password', '<a12>']' returned 1
repr of a tuple :: ('Authorization', 'Bearer <a40>')
repr of a header :: {'Authorization': 'Basic <b28>=='}
repr of a header :: Headers([('x-api-key', '<a32>')])
repr of a connection :: OperationalError: connection to "host=db user=ada password=<a12>" failed
SQLAlchemy :: Engine(postgresql://ada:<a14>@db.example.org/x)
HTTP error :: HTTPError: 401 Client Error for url: https://api.example.org/v1?api_key=<a32>
HTTP error :: HTTPError: 403 for url: https://b.example.org/x?X-Goog-Signature=<h128>
OpenAI error :: AuthenticationError: Incorrect API key provided: sk-svcacct-<w60>
hub error :: OSError: Invalid token hf_<a34> passed
source line :: File "x.py", line 3, in f\n    client = Client(api_key="<a32>")
source line :: File "x.py", line 9\n    PASSWORD = "<a12>"
source line :: File "x.py", line 9, in g\n    login(token="<a32>")
source line :: File "x.py", line 4, in g\n    os.environ["HF_TOKEN"] = "hf_<a34>"
source line :: File "x.py", line 4, in g\n    os.environ["DB_PASSWORD"] = "<a12>"
locals :: │ password = '<a12>'
locals :: secret_key = b'<a40>'
pytest repr :: E   AssertionError: assert 'hf_<a34>' is None
git error :: fatal: Authentication failed for 'https://ada:ghp_<a36>@github.com/x/y.git/'
git error :: fatal: unable to access 'https://oauth2:glpat-<w20>@gitlab.com/x.git/'
JSON in a message :: RuntimeError: {"error": "denied", "access_token": "<a40>"}
f-string :: RuntimeError: cannot log in with password='<a12>'
Go style :: dial failed: &{User:ada Password:<a12> Port:5}
Rust style :: Config { user: "ada", password: "<a12>" }
with a quote inside :: ValueError: password='it"s<a12>'
"""

_ADDRESSES = r"""
Authorization: Bearer :: Authorization: Bearer <a40>
Authorization: Basic :: > Authorization: Basic <b28>==
Authorization: token :: authorization: token <h40>
Authorization: Splunk :: Authorization: Splunk <h8>-<h4>-<h4>-<h4>-<h12>
Authorization: ApiKey :: Authorization: ApiKey <b60>==
Authorization: SSWS :: Authorization: SSWS 00<w40>
Authorization: AWS4 :: Authorization: AWS4-HMAC-SHA256 Credential=AKIA<u16>/20260101/x/s3/aws4_request, SignedHeaders=host, Signature=<h64>
Authorization: Digest :: Authorization: Digest username="ada", realm="x", response="<h32>"
X-Api-Key :: x-api-key: <a32>
X-Auth-Token :: X-Auth-Token: gAAAAA<w120>
X-Vault-Token :: X-Vault-Token: <a26>
Private-Token :: PRIVATE-TOKEN: <w20>
X-Amz-Security-Token :: X-Amz-Security-Token: <b100>==
cookie :: Cookie: theme=dark; sessionid=<l32>
cookie :: Set-Cookie: csrftoken=<a64>; Path=/
PostgreSQL :: postgres://ada:<a12>@db.example.org:5432/x
AMQP :: amqps://ada:<a20>@mq.example.org/vhost
Redis, no user :: rediss://:<a24>@cache.example.org:6380
MSSQL :: Server=tcp:x.example.org,1433;User ID=ada;Password=<a14>;Encrypt=True
ODBC :: DRIVER={x};SERVER=db;UID=ada;PWD=<a12>
JDBC :: jdbc:mysql://db.example.org:3306/x?user=ada&password=<a12>
Azure storage :: DefaultEndpointsProtocol=https;AccountName=x;AccountKey=<b86>==;EndpointSuffix=core.windows.net
Azure service bus :: Endpoint=sb://x.example.org/;SharedAccessKeyName=Root;SharedAccessKey=<b43>=
Jupyter :: http://127.0.0.1:8888/lab?token=<h48>
Azure SAS :: https://x.blob.core.windows.net/c/b?sv=2022-11-02&sig=<a43>%3D
one-time password :: otpauth://totp/x:ada?secret=<u32>&issuer=x
OAuth redirect :: http://127.0.0.1/cb?state=xyz&code=4/0A<w70>
fragment :: https://x.example.org/cb#access_token=<w60>&expires_in=3600
Discord webhook :: https://discord.com/api/webhooks/<d18>/<w68>
Telegram :: https://api.telegram.org/bot<d10>:AA<w33>/getMe
"""

PLACES = {
    "environment": _ENVIRONMENT,
    "flags": _FLAGS,
    "lines": _LINES,
    "documents": _DOCUMENTS,
    "tables": _TABLES,
    "paths": _PATHS,
    "exceptions": _EXCEPTIONS,
    "addresses": _ADDRESSES,
}


class Entry(NamedTuple):
    number: int
    place: str
    planted: Planted

    @property
    def is_held_out(self) -> bool:
        return self.number % 4 == 3


def planted_set(seed: int = 240) -> list[Entry]:
    """Return all 240, in order; the same texts in every run."""
    return entries_of(PLACES, seed)


def entries_of(places: dict[str, str], seed: int) -> list[Entry]:
    """Fill the forms of each place."""
    chance = random.Random(seed)
    entries: list[Entry] = []
    for place, lines in places.items():
        for line in lines.strip().splitlines():
            kind, _, form = line.partition(" :: ")
            form = form.removeprefix("\\") if form.startswith("\\ ") else form
            form = form.replace(r"\e", "\x1b")
            if place in ("documents", "tables", "lines", "exceptions", "flags"):
                form = form.replace(r"\\n", "\0").replace(r"\n", "\n").replace(r"\t", "\t")
                form = form.replace("\0", r"\n")
            planted = make(f"{place}: {kind}", form, chance, shortest=_SHORTEST)
            entries.append(Entry(len(entries), place, planted))
    return entries
