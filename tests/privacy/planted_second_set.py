r"""Another 240 secrets to plant, in eight places, written before any rule was looked at for them.

`planted_set` was at hand while the rules were made; this one shows how they carry over. The format
is that of `planted_set`. docs/figures.md has how many of them the rules found at the first try.
"""

# ruff: noqa: E501 - an entry is one line
from __future__ import annotations

from planted_set import Entry, entries_of

_ENVIRONMENT = r"""
Label Studio key :: LABEL_STUDIO_API_KEY=<h40>
Weaviate key :: WEAVIATE_APIKEY=<a36>
Qdrant key :: QDRANT__SERVICE__API_KEY=<a28>
Milvus token :: MILVUS_TOKEN=root:<a14>
Grafana admin :: GF_SECURITY_ADMIN_PASSWORD=<a12>
Postgres in Docker :: POSTGRES_PASSWORD=<x11>
MinIO root :: MINIO_ROOT_PASSWORD=<a18>
MySQL root :: MYSQL_ROOT_PASSWORD=<a10>
Rabbit :: RABBITMQ_DEFAULT_PASS=<a11>
Airflow fernet :: AIRFLOW__CORE__FERNET_KEY=<b43>=
Airflow connection :: AIRFLOW_CONN_PG=postgres://ada:<a13>@db.example.org:5432/x
Airflow connection in JSON :: AIRFLOW_CONN_X={"conn_type": "http", "login": "ada", "password": "<a13>"}
Flask :: FLASK_SECRET_KEY=<h32>
restic :: RESTIC_PASSWORD=<a16>
borg :: BORG_PASSPHRASE=<x18>
rclone :: RCLONE_CONFIG_PASS=<a14>
rclone, obscured :: RCLONE_CONFIG_S3_SECRET_ACCESS_KEY=<b40>
conda token :: ANACONDA_API_TOKEN=<a36>
pip index :: PIP_INDEX_URL=https://ada:<a20>@pypi.example.org/simple
pip extra index :: PIP_EXTRA_INDEX_URL=https://__token__:<a40>@gitlab.example.org/api/v4/simple
uv index :: UV_INDEX_PRIVATE_PASSWORD=<a20>
Ansible :: ANSIBLE_VAULT_PASS=<a14>
CI job token :: CI_JOB_JWT_V2=eyJ<a30>.eyJ<a40>.<w43>
GitHub OIDC :: ACTIONS_ID_TOKEN_REQUEST_TOKEN=<a60>
Codecov :: CODECOV_TOKEN=<h8>-<h4>-<h4>-<h4>-<h12>
Mistral :: MISTRAL_API_KEY=<a32>
LangFuse :: LANGFUSE_SECRET_KEY=sk-lf-<h8>-<h4>-<h4>-<h4>-<h12>
Azure OpenAI :: AZURE_OPENAI_KEY=<h32>
Watson :: WATSONX_APIKEY=<w44>
SLURM token :: SLURM_JWT=eyJ<a30>.eyJ<a40>.<w43>
"""

_FLAGS = r"""
aim token :: --aim-access-token <a30>
neptune :: --neptune_api_token=eyJ<a80>
telegram :: --tg-token <d10>:AA<w33>
ssh password :: --ssh_pass <a11>
user and password :: --user-password=<x12>
basic auth :: --basic-auth ada:<a14>
header flag :: --header=Authorization:Bearer\t<a40>
header flag, words :: -H X-Api-Key:<a32>
Hydra override :: logger.api_key=<a32>
Hydra override, plus :: +wandb.key=<h40>
Hydra override, two plus :: ++db.auth.password=<a14>
dotted flag :: --trainer.logger.api_key=<a30>
absl :: -hf_token=hf_<a34>
slash option :: /password:<a12>
camel flag :: --apiToken=<a30>
camel flag, password :: --dbPassword <x12>
spark conf :: --conf=spark.hadoop.fs.s3a.secret.key=<b40>
spark conf, azure :: --conf=fs.azure.account.key.lake.dfs.core.windows.net=<b86>==
docker -e :: -e=MYSQL_ROOT_PASSWORD=<a12>
docker env :: --env=WANDB_API_KEY=<h40>
docker build-arg :: --build-arg=NPM_TOKEN=<h8>-<h4>-<h4>-<h4>-<h12>
helm set :: --set=auth.postgresPassword=<a12>
kubectl literal :: --from-literal=password=<x12>
kubectl literal, token :: --from-literal=hf=hf_<a34>
terraform var :: -var=db_password=<a12>
connection string :: --dsn=host=db user=ada password=<a12> dbname=x
JSON in a flag :: --config={"wandb":{"api_key":"<h40>"}}
client key :: --client-key-passphrase=<a12>
license :: --license-key=<u5>-<u5>-<u5>-<u5>-<u12>
encryption :: --aes-key=<h64>
"""

_LINES = r"""
log of a client :: DEBUG:openai:Request options: {'headers': {'api-key': '<h32>'}, 'files': None}
log of httpx :: DEBUG send_request_headers.started request=<Request [b'POST']> authorization=b'Bearer <a40>'
log of botocore :: DEBUG botocore.auth: CanonicalRequest: x-amz-security-token:<b120>
log of urllib3 :: DEBUG:urllib3.connectionpool:https://api.example.org:443 "GET /v1/x?apikey=<a32> HTTP/1.1" 200 12
log of requests :: send: b'GET / HTTP/1.1\r\nX-Auth-Key: <h37>\r\n\r\n'
jupyter :: [I 10:00:00 ServerApp] http://node7:8888/lab?token=<h48>
jupyter, file :: To access the server: http://127.0.0.1:8888/?token=<h48>
ray dashboard :: ray start --address=10.1.2.3:6379 --redis-password=<a20>
ray, quoted :: ray start --address='10.1.2.3:6379' --redis-password='<d16>'
root password of a database :: [Entrypoint] GENERATED ROOT PASSWORD: <a20>
password of Elastic :: The generated password for the elastic user is : <a20>
password of Elastic, next line :: Password for the elastic user (reset with `bin/x`):\n  <a20>
temporary password :: A temporary password is generated for root@localhost: <a12>
Airflow standalone :: standalone | Login with username: admin  password: <a16>
Grafana reset :: Admin password changed successfully to <a14>
minio start :: RootUser: minioadmin RootPass: <a14>
code-server :: [info]  - Using password from config: <h24>
SLURM environment :: export WANDB_API_KEY=<h40>,HF_TOKEN=hf_<a34>
set -x :: + export HF_TOKEN=hf_<a34>
set -x, quoted :: + DB_PASS='<a14>'
set -x, sshpass :: ++ sshpass -p<a12> scp model.pt ada@node:
set -x, curl :: + curl -H 'Authorization: token <h40>' https://api.example.org
set -x, curl, data :: + curl -d '{"username":"ada","password":"<a14>"}' https://x.example.org/login
set -x, wget :: + wget --user=ada --password=<a12> https://x.example.org/f
set -x, mysql :: + mysql -h db -u root -p<a12> -e 'select 1'
set -x, aws :: + aws configure set aws_secret_access_key <b40>
set -x, huggingface :: + huggingface-cli login --token hf_<a34> --add-to-git-credential
set -x, git :: + git clone https://x-access-token:ghs_<a36>@github.com/x/y
gcloud :: Your access token: ya29.a0A<w120>
printenv :: NGC_API_KEY=<b84>
"""

_DOCUMENTS = r"""
JSON, camel :: {"accessToken":"<a40>","expiresIn":3600}
JSON, refresh :: {"token_type": "Bearer", "refresh_token": "<w48>"}
JSON, id token :: {"id_token":"eyJ<a30>.eyJ<a40>.<w43>"}
JSON, secret key :: {"Credentials":{"AccessKeyId":"ASIA<u16>","SecretAccessKey":"<b40>","SessionToken":"<b120>"}}
JSON, number :: {"otp_secret": "<u32>", "digits": 6}
JSON, spaces in the key :: {"API Key": "<a32>"}
JSON, dashes :: {"x-functions-key": "<a54>=="}
JSON, list of objects :: {"users":[{"name":"ada","pwd":"<a12>"},{"name":"bob","pwd":"<a12>"}]}
JSON, pairs :: [["password", "<a14>"], ["port", "1"]]
YAML, OpenAI-like :: litellm_params:\n  api_key: <a32>
YAML, secret in a list of objects :: - name: wandb\n  secret: <h40>
YAML, folded :: private_key: >-\n  <b60>\n  <b60>\nnext: 1
YAML, inline :: db: {user: ada, password: <a12>, port: 1}
YAML, spaces :: password : <a12>
YAML, comment :: password: <a12>  # of the test server
YAML, OAuth :: oauth:\n  clientSecret: "<a24>"
YAML, docker-compose :: environment:\n  - POSTGRES_PASSWORD=<a14>
YAML, docker-compose map :: environment:\n  POSTGRES_PASSWORD: <a14>
YAML, sops :: sops:\n  age: [{recipient: x, enc: AGE-SECRET-KEY-1<u58>}]
TOML, table :: [tool.x.credentials]\npassword = "<a14>"
TOML, inline :: db = { user = "ada", password = "<a14>" }
INI, spaces :: [smtp]\nsmtp_password    =   <a12>
INI, semicolons :: password=<a12>;
INI, no value quotes :: secret = <a24>  ; rotated
cargo credentials :: [registries.x]\ntoken = "Bearer <a40>"
npmrc :: //registry.npmjs.org/:_authToken=<h8>-<h4>-<h4>-<h4>-<h12>
npmrc, basic :: //npm.example.org/:_password=<b24>==
XML, Maven :: <server><username>ada</username><password><a14></password></server>
XML, .NET :: <add name="x" connectionString="Server=db;User Id=ada;Password=<a14>;" />
Python settings :: DATABASES = {'default': {'USER': 'ada', 'PASSWORD': '<a14>', 'HOST': 'db'}}
"""

_TABLES = r"""
rich, headed :: ┏━━━━━━━━━━┳━━━━━━━━━━━━━━━━┓\n┃ Name     ┃ Token          ┃\n┡━━━━━━━━━━╇━━━━━━━━━━━━━━━━┩\n│ ada      │ <a30> │\n└──────────┴────────────────┘
rich, setting and value :: ┃ Setting ┃ Value ┃\n┡━━━━━━━━╇━━━━━━━┩\n│ wandb.api_key │ <h40> │
rich, config tree :: ├── auth\n│   ├── user: ada\n│   └── password: <a14>
rich, config tree, equals :: └── hf_token=<a34>
OmegaConf :: logger:\n  wandb:\n    key: <h40>
pprint :: {'lr': 0.1,\n 'wandb_key': '<h40>'}
argparse, aligned :: hub_token ....................................... <a34>
argparse, aligned, short :: secret ................ <a18>
Megatron :: \  wandb_api_key ................................... <h40>
Lightning :: | api_key     | <a32>  |
tabulate, simple :: name      value\n--------  ----------------\npassword  <a14>
tabulate, grid :: +----------+----------------+\n| name     | value          |\n+==========+================+\n| api_key  | <a32> |\n+----------+----------------+
tabulate, rst :: ==========  ================\nname        value\n==========  ================\npassword    <a14>\n==========  ================
pandas :: \    user        password\n0    ada  <a14>\n1    bob  <a14>
pandas, series :: user                   ada\npassword    <a14>\ndtype: object
polars :: ┌──────┬────────────────┐\n│ user ┆ password       │\n│ ---  ┆ ---            │\n│ str  ┆ str            │\n╞══════╪════════════════╡\n│ ada  ┆ <a14> │\n└──────┴────────────────┘
CSV, quoted :: "name","password"\n"ada","<a14>"
CSV, three columns :: id,email,api_key\n1,x@example.org,<a32>
TSV :: id\tsecret\n1\t<a24>
SQL, vertical :: *************************** 1. row ***************************\n    user: ada\npassword: <a14>
psql, expanded :: -[ RECORD 1 ]------\nusername | ada\npassword | <a14>
columns, colon :: Password      : <a14>
columns, equals :: api_token     = <a32>
columns, names with blanks :: Secret Key      <a40>
columns, names with blanks, colon :: Access Key:    <a20>
aws configure list :: secret_key     <b40>    env
kubectl describe :: Data\n====\ntoken:  eyJ<a30>.eyJ<a40>.<w43>
kubectl env :: Environment:\n      DB_PASSWORD:  <a14>
docker inspect :: "Env": [\n    "PATH=/usr/bin",\n    "REDIS_PASSWORD=<a14>"\n]
HTML :: <tr><td>password</td><td><a14></td></tr>
"""

_PATHS = r"""
OpenRouter key :: out/sk-or-v1-<h64>/x.json
xAI key :: out/xai-<a80>.txt
Tavily key :: cache/tvly-dev-<a32>.json
Perplexity key :: cache/pplx-<a48>/x
Fireworks key :: /tmp/fw_<a24>/y
NVIDIA key :: nim/nvapi-<w64>/x
Jina key :: emb/jina_<h32><w28>.npy
Pinecone key :: idx/pcsk_<a69>.bin
LangSmith key :: ls/lsv2_pt_<h32>_<h10>.json
Twilio key :: sms/SK<h32>.log
Mailgun key :: mail/key-<h32>.log
Mailchimp key :: mail/<h32>-us12.log
Telegram token :: bot/<d10>:AA<w33>.log
Discord token :: bot/M<w25>.<w6>.<w38>
New Relic key :: nr/NRAK-<u27>.log
Notion key :: n/ntn_<d11><a35>.md
Postman key :: p/PMAK-<h24>-<h34>.json
Terraform token :: t/<a14>.atlasv1.<w64>
1Password key :: op/A3-<u6>-<u6>-<u5>-<u5>-<u5>-<u5>.pdf
Netlify token :: n/nfp_<a36>
Supabase key :: s/sbp_<h40>
age key :: keys/AGE-SECRET-KEY-1<u58>.txt
name in a folder :: runs/lr0.1_token-<a32>/x.pt
name in a folder, capital :: runs/API_KEY=<a32>/x.pt
name in a query :: s3://b/x?sig=<a43>&se=2026
Hydra sweep :: multirun/2026-01-01/0_wandb.api_key=<h40>,seed=1/x
URL with login :: ftp://ada:<a14>@ftp.example.org/data.tar
scp with a password :: smb://lab;ada:<a14>@nas.example.org/share
Hugging Face, in a URL :: https://user:hf_<a34>@huggingface.co/x/y
presigned :: https://b.s3.example.org/m.pt?AWSAccessKeyId=AKIA<u16>&Signature=<b27>%3D&Expires=17
"""

_EXCEPTIONS = r"""
repr of an object :: <Client(url='https://x', token='<a32>')>
repr of attrs :: Config(user='ada', passphrase='<a18>', n=1)
repr of a named tuple :: Login(user='ada', pw='<a12>')
repr of OmegaConf :: {'logger': {'wandb': {'api_key': '<h40>'}}}
repr of os.environ :: environ({'HOME': '/root', 'HF_TOKEN': 'hf_<a34>', 'X': '1'})
repr of a request :: PreparedRequest headers={'x-goog-api-key': '<w39>'}
repr of bytes :: b'{"client_secret":"<a24>"}'
repr of a URL object :: URL('https://ada:<a14>@x.example.org/')
KeyError :: KeyError: 'hf_<a34>'
ValueError :: ValueError: could not convert string to float: 'sk-<a48>'
FileNotFoundError :: FileNotFoundError: [Errno 2] No such file or directory: 'ghp_<a36>'
TypeError :: TypeError: __init__() got an unexpected keyword argument 'password=<a14>'
InvalidHeader :: InvalidHeader: Invalid leading whitespace in header value: 'Bearer <a40>\n'
UnicodeEncodeError :: LocationParseError: Failed to parse: https://ada:<a14>@db:xx/
MaxRetryError :: MaxRetryError: Max retries exceeded with url: /v1/x?access_token=<a40> (Caused by x)
psycopg2 :: invalid dsn: invalid connection option "pass", in "host=db user=ada password=<a12>"
SQLAlchemy, URL :: Could not parse SQLAlchemy URL from string 'postgres//ada:<a14>@db/x'
pymongo :: InvalidURI: Username and password must be escaped: mongodb://ada:<a9>/x<a7>@db.example.org
redis :: AuthenticationError: AUTH <a20> called without any password configured
subprocess :: subprocess.CalledProcessError: Command 'mysql -uroot -p<a12> x' returned non-zero exit status 1.
subprocess, list :: CalledProcessError: Command '['curl', '-u', 'ada:<a14>', 'https://x']' returned 7
subprocess, env :: Popen(args=['x'], env={'AWS_SECRET_ACCESS_KEY': '<b40>'})
Hydra :: Could not override 'db.password=<a14>'.
argparse :: train.py: error: unrecognized arguments: --wandb_key <h40>
click :: Error: No such option: --apikey=<a32>
pydantic :: 1 validation error for Settings\nopenai_api_key\n  Extra inputs are not permitted [type=extra_forbidden, input_value='<a40>', input_type=str]
boto :: SignatureDoesNotMatch: <StringToSign>x</StringToSign><AWSAccessKeyId>AKIA<u16></AWSAccessKeyId>
locals of rich :: │ │  api_key = '<a32>'                  │ │
locals of rich, dict :: │ │     headers = {'Authorization': 'Bearer <a40>'} │ │
source line :: \    smtp.login("ada", "<a14>")
"""

_ADDRESSES = r"""
Cookie, JWT :: cookie: auth=eyJ<a30>.eyJ<a40>.<w43>
Set-Cookie, session :: set-cookie: connect.sid=s%3A<a32>.<b43>; Path=/; HttpOnly
X-CSRF-Token :: X-CSRFToken: <a64>
Api-Key :: Api-Key: <h32>
Ocp-Apim :: Ocp-Apim-Subscription-Key: <h32>
X-Goog-Api-Key :: X-Goog-Api-Key: AIza<w35>
X-Shopify :: X-Shopify-Access-Token: shpat_<h32>
X-Auth-Key of Cloudflare :: X-Auth-Key: <h37>
X-Gitlab-Token :: X-Gitlab-Token: <a24>
Proxy-Authorization :: Proxy-Authorization: Basic <b24>==
WWW :: Authorization: OAuth <a40>
Kubernetes exec :: Authorization: Bearer k8s-aws-v1.<w200>
HTTP/2 :: [HTTP/2] [1] [authorization: Bearer <a40>]
Elastic :: elastic:<a20>@https://es.example.org:9200
clickhouse :: clickhouse://default:<a14>@ch.example.org:9000/x
Snowflake :: snowflake://ada:<a14>@acc/db/schema?warehouse=w
Kafka :: sasl.jaas.config=org.apache.kafka.x.PlainLoginModule required username="ada" password="<a14>";
Kafka, property :: ssl.keystore.password=<a12>
Event hub :: Endpoint=sb://x.example.org/;SharedAccessKeyName=a;SharedAccessKey=<b43>=;EntityPath=y
Cosmos :: AccountEndpoint=https://x.example.org:443/;AccountKey=<b86>==;
Application Insights :: InstrumentationKey=<h8>-<h4>-<h4>-<h4>-<h12>;IngestionEndpoint=https://x.example.org/
Slack :: https://hooks.slack.com/triggers/T<u8>/<d13>/<h32>
Discord :: https://discordapp.com/api/webhooks/<d18>/<w68>
Teams :: https://prod-12.westeurope.logic.azure.com/workflows/0a1b/triggers/manual/paths/invoke?sp=x&sv=1.0&sig=<w43>
healthchecks :: https://hc-ping.com/<h8>-<h4>-<h4>-<h4>-<h12>
ntfy :: https://ntfy.example.org/x?auth=<b32>
Mastodon :: https://x.example.org/oauth?client_secret=<w43>&grant_type=x
websocket :: wss://x.example.org/socket?access_token=<a40>
magnet :: https://tracker.example.org/announce?passkey=<h32>
Google Drive :: https://www.googleapis.com/drive/v3/files/x?alt=media&key=AIza<w35>
"""

SECOND_PLACES = {
    "environment": _ENVIRONMENT,
    "flags": _FLAGS,
    "lines": _LINES,
    "documents": _DOCUMENTS,
    "tables": _TABLES,
    "paths": _PATHS,
    "exceptions": _EXCEPTIONS,
    "addresses": _ADDRESSES,
}


def second_set(seed: int = 241) -> list[Entry]:
    """Return all 240, in order; the same texts in every run."""
    return entries_of(SECOND_PLACES, seed)
