"""What shells call signals, in the languages that they speak.

Out: WORDS (in lower case, to the signal's name), SRUN_WORDS, and CORE_DUMPED, what stands in
brackets behind a word when a core was written. Shells print the C library's names, which follow the
locale. Words that a program also says when all went well ("Terminado", "Beendet") are left out.
"""

from __future__ import annotations

from rerail.platform.signal_names import OF_LINUX

_BY_SIGNAL = {
    "SIGKILL": (
        *("killed", "已杀死", "被杀死", "已殺死", "砍掉", "強制終了", "죽었음", "getötet"),
        *("processus arrêté", "terminado (killed)", "morto", "ucciso", "убито", "unicestwiony"),
        "öldürüldü",
    ),
    "SIGTERM": ("terminated", "已终止", "已終止"),
    "SIGSEGV": (
        *("segmentation fault", "segmentation violation", "segfault"),
        *("段错误", "程式記憶體區段錯誤", "記憶體區段錯誤", "セグメンテーション違反です"),
        *("세그멘테이션 오류", "speicherzugriffsfehler", "erreur de segmentation"),
        *("violación de segmento", "falha de segmentação", "errore di segmentazione"),
        *("ошибка сегментирования", "naruszenie ochrony pamięci", "parçalama arızası"),
    ),
    "SIGABRT": (
        *("aborted", "abort", "abort trap", "已放弃", "已中止", "已經終止", "アボートしました"),
        *("abgebrochen", "abandon", "abortado", "annullato", "аварийный останов", "przerwane"),
    ),
    "SIGBUS": (
        *("bus error", "总线错误", "匯流排錯誤", "バスエラー", "버스 오류", "bus-zugriffsfehler"),
        *("erreur du bus", "error en el bus", "erro de barramento", "ошибка шины"),
    ),
    "SIGILL": (
        *("illegal instruction", "illegal hardware instruction", "非法指令", "不正な命令です"),
        *("ungültiger maschinenbefehl", "instruction non permise", "instrucción ilegal"),
        *("instrução ilegal", "недопустимая инструкция"),
    ),
    "SIGFPE": (
        *("floating point exception", "floating-point exception", "浮点数例外", "浮点异常"),
        *("erroneous arithmetic operation", "浮動小数点例外", "gleitkomma-ausnahme"),
        *("exception en point flottant", "excepción de coma flotante"),
    ),
    "SIGHUP": ("hangup",),
    "SIGINT": ("interrupt", "user interrupt"),
    "SIGTRAP": ("trace/breakpoint trap", "trace trap", "追踪/中断点陷阱", "跟踪/中断点陷阱"),
}
WORDS = {word: signal for signal, words in _BY_SIGNAL.items() for word in words}
_NUMBERS = {name: number for number, name in OF_LINUX.items()}
# What srun says of a task, to the number of the signal that it died of.
SRUN_WORDS = {
    **{word: _NUMBERS[WORDS[word]] for word in ("killed", "segmentation fault", "bus error")},
    **{word: _NUMBERS[WORDS[word]] for word in ("illegal instruction", "floating point exception")},
    "out of memory": _NUMBERS["SIGKILL"],
}
CORE_DUMPED = (
    r"\s*[(（](?:core dumped|核心已转储|吐核|核心已傾印|コアダンプ|Speicherabzug geschrieben"
    r"|`core' generado|imagem do núcleo gravada|стек памяти сброшен на диск"
    r"|zrzut pamięci|core dump creato)[)）]"
)
