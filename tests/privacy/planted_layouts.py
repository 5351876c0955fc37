r"""Ways to write a secret down that `planted_set` does not have, from other languages and tools.

One line is `kind :: form`, as there: `planted.make` fills the blanks, `\n` and `\e` are a new line
and the escape character.
"""

# ruff: noqa: E501 - an entry is one line
from __future__ import annotations

import random

from planted import Planted, make

_FORMS = r"""
quote inside, single :: {'password': 'it\'s<a14>'}
quote inside, in JSON in a text :: "{\"password\": \"<a7>\\\"<a12>\"}"
JSON in JSON in JSON :: "{\\\"password\\\": \\\"<a14>\\\"}"
three quotes :: password = Q3<a14>Q3
three quotes, lines :: password = Q3\n<a14>\nQ3
cut off :: {"password": "<a14>
psql :: \  username | password \n----------+----------\n ada      | <a14>\n(1 row)
mysql :: +------+----------------+\n| user | password       |\n+------+----------------+\n| ada  | <a14> |\n+------+----------------+
heading, tabs :: user\tpassword\nada\t<a14>\nbob\t<a14>
heading, blanks :: \                             api_key\n0  <a32>\n1  <a32>
glued name in a table :: │ SMTPPASS │ <a14> │
arrow :: password -> <a14>
arrow sign :: password → <a14>
list, no quotes :: api_keys: [<a32>, <a32>]
set :: {'secret_keys': {'<a20>'}}
object of a name :: {'password': {'value': '<a14>'}}
name and value :: [{"name": "DB_PASSWORD", "value": "<a14>"}]
name and value, Kubernetes :: - name: API_TOKEN\n  value: "<a32>"
name and value, XML :: <add key="ApiKey" value="<a32>"/>
element :: <dbPassword><a14></dbPassword>
field of pydantic :: db.password\n  Input should be valid [type=x, input_value='<a14>', input_type=str]
pass, YAML :: \  pass: <a14>
pass, DSN :: user=ada pass=<a14>
pass, variable :: PASS=<a14>
pwd :: pwd: <a14>
YAML, next line :: password:\n  <a14>\nport: 1
YAML, anchor :: password: &pw <a14>
YAML, tag :: password: !!str <a14>
call :: client.set_password("<a14>")
Secret of Rust :: Some(Secret("<a14>"))
setenv :: setenv DB_PASSWORD <a14>
Dockerfile :: ENV DB_PASSWORD <a14>
prose :: using password <a14> for login
prose, quoted :: invalid token '<a32>'
prose, key :: API key <a32> rejected
prompt :: [sudo] password for ada: <a14>
SQL :: SET PASSWORD FOR ada = '<a14>'
SQL, role :: ALTER ROLE ada WITH PASSWORD '<a14>'
URL in a URL :: redirect=https%3A%2F%2Fx%2F%3Ftoken%3D<a32>
shape in a quoted URL :: q%3Dghp_<a36>
shape after an escaped line end :: "line\\nghp_<a36>"
shape after an escaped colour :: "\\u001b[31mghp_<a36>"
hash of Apache :: ada:$apr1$<a8>$<a22>
hash of Django :: pbkdf2_sha256$260000$<a22>$<a43>=
hash of LDAP :: {SSHA}<a32>=
hash of Werkzeug :: pbkdf2:sha256:150000$<a8>$<h64>
hash of WordPress :: $P$B<a31>
hashes of Windows :: Administrator:500:aad3b435b51404eeaad3b435b51404ee:<h32>:::
SSH2 key :: ---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n<b64>\n<b64>\n---- END SSH2 ENCRYPTED PRIVATE KEY ----
JSON web key :: {"kty":"oct","k":"<w43>"}
key of wandb :: wandb.login(key='<h40>')
pair of a login :: requests.get(url, auth=('ada', '<a14>'))
pair of a class :: HTTPBasicAuth("ada", "<a14>")
command in a list :: Command '['sshpass', '-p', '<a14>', 'ssh', 'x']' returned 1
command in a list of JSON :: ["curl","-s","-u","ada:<a14>"]
command in a tuple :: ('mysql', '-uroot', '-p<a14>', 'x')
docker, glued :: docker login -u ada -p<a14> hub.example.org
ssh-keygen :: ssh-keygen -t rsa -N '<a14>' -f k
here-string :: sudo -S id <<< "<a14>"
property, Hadoop :: <property><name>fs.s3a.secret.key</name><value><b40></value></property>
property, Hibernate :: <property name="x.password"><a14></property>
property, dotted :: hdfs dfs -Dfs.s3a.secret.key=<b40> -ls s3a://x
backticks :: const TOKEN = `<a32>`;
CSV, pass :: user,pass\nada,<a14>
sentence :: The App Secret will look something like this: <a30>
sentence, quoted :: unexpected keyword 'passwd' with value '<a14>'
"""


def planted_layouts(seed: int = 60) -> list[Planted]:
    chance = random.Random(seed)
    planted = []
    for line in _FORMS.strip().splitlines():
        kind, _, form = line.partition(" :: ")
        form = form.removeprefix("\\ ") if form.startswith("\\ ") else form
        form = form.replace(r"\\", "\0").replace(r"\n", "\n").replace(r"\t", "\t")
        form = form.replace("\0n", r"\n").replace("\0", r"\\" if "JSON" in kind else "\\")
        planted.append(make(kind, form.replace("Q3", '"' * 3), chance, shortest=6))
    return planted
