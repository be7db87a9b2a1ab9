"""Detect answers that only decline: "I don't know", "The documents do not say".

Detection uses only the text, so it covers only clear cases: the answer is short, and each sentence matches one of the
forms below from the first word to the last. An answer that declines and then states something does not match. Answers
in other forms go to the judge.
"""

import re
import unicodedata
from functools import cache

_LONGEST = 300
"""Maximum characters of an answer that may match."""

_PARTS = {
    "cannot": r"(?:can't|cannot|can not|could not|couldn't|(?:am|are|was|were) (?:unable|not able) to)",
    "dont": r"(?:do not|don't|does not|doesn't|did not|didn't)",
    "source": r"(?:(?:any of )?(?:the|this|these|your) )?(?:(?:provided|given|available|retrieved|supplied) )*"
    r"(?:contexts?|documents?|documentation|information|passages?|sources?|texts?|materials?|knowledge base|data)"
    r"(?: (?:provided|given|available|retrieved|supplied|i have|you provided))?",
    "facts": r"(?:(?:the|an|any|enough|sufficient|specific|relevant|necessary|required|such|that|this) )*"
    r"(?:answers?|information|details?|data|context|knowledge|mention|idea|clue)",
    "asked": r"(?: (?:that|this|it|the answer|(?:that|this|the|your) question))?"
    r"(?: to (?:that|this|the|your) question)?",
    "basis": r"(?: (?:based (?:only |solely )?on|from|given|according to|in|within|using|with) "
    "(?:(?:my|our) )?{source})?",
    "based": r" (?:from|given|according to|in|within) {source}",
    "topic": r"(?: (?:about|on|regarding|concerning|for)(?: (?:that|this|it)|"
    r"(?:{small}(?: (?!(?:{links})\b)(?:[^\W\d]|['-])+)){{1,3}}))?",
    "small": r"(?: (?:an?|at|by|for|from|in|its|my|of|on|our|the|their|this|to|with|your)\b){0,3}",
    "links": "although|and|apart|are|as|because|besides|beyond|but|can|costs?|except|ha[sd]|have|however|if|is|only|or|"
    "other|since|so|than|that|though|was|were|which|while|who|will|would|yet",
}
"""Parts of the English forms. `topic` is what the answer knows nothing about. It has none of the `links`, which could
begin another statement, no digit, and at most three words besides the `small` ones, because a longer one may state
something."""

_ENGLISH = (
    "(?:(?:i|we) )?(?:(?:really|honestly|simply|just|currently) )?{dont} know{asked}{topic}{basis}",
    "(?:(?:i|we) )?{cannot} (?:answer|say|tell|determine){asked}{topic}{basis}",
    "(?:(?:i|we) )?{cannot} (?:find|provide|determine) {facts}{asked}{topic}{basis}",
    "(?:i'm|we're) (?:unable|not able) to (?:answer|say|tell){asked}{topic}{basis}",
    "(?:i'm|we're) (?:unable|not able) to (?:find|provide|determine) {facts}{asked}{topic}{basis}",
    "(?:i'm|i am|we're|we are) not (?:sure|certain)(?: about (?:that|this|it))?",
    "(?:(?:i|we) )?{dont} (?:have|find|see) (?:access to )?{facts}(?: to answer{asked})?{topic}{basis}",
    "(?:(?:i|we) )?(?:have|found|see) no {facts}{topic}{basis}",
    "{source} {dont} (?:say|tell)(?: (?:that|this|it))?",
    "{source} {dont} (?:answer|address|cover|mention|specify|state)(?: (?:that|this|it))?{asked}",
    "{source} {dont} (?:contain|give|have|include|mention|provide) {facts}(?: to answer{asked})?{asked}{topic}",
    "{source} (?:has|have|contains?|gives?|includes?|provides?) no {facts}{topic}",
    "there (?:is|was) (?:no|not) {facts}(?: to answer{asked})?{topic}{basis}",
    "(?:no|not|insufficient) {facts}(?: (?:is|was|were))?(?: (?:available|found|given|provided))?{basis}",
    "(?:the answer|that|this|(?:that|this) information|it) (?:is not|isn't|cannot be|can't be) "
    "(?:answered|determined|mentioned|stated){basis}",
    "(?:the answer|(?:that|this) information|the details) (?:is not|isn't|are not|aren't|cannot be|can't be) "
    "(?:available|found|given|known|provided){basis}",
    "(?:that|this|it) (?:is not|isn't|cannot be|can't be) (?:available|found|given|known|provided){based}",
    "(?:the answer|(?:that|this)(?: information)?|it) (?:is not|isn't) in {source}",
    "unknown|not known|n/a|unanswerable|not answerable|no idea|no clue|dunno|idk",
)
_COURTESIES = (
    "please (?:clarify|rephrase) (?:the|your) question",
    "please provide more (?:context|details|information)",
    "(?:can|could|would) you (?:please )?(?:clarify|rephrase)(?: (?:that|it|your question))?",
    "(?:can|could|would) you (?:please )?(?:give|provide) (?:me )?more (?:context|details|information)",
    "is there anything else (?:that )?i can (?:do for|help) you(?: with)?",
)
"""Phrases that may follow because they state nothing."""

_OTHERS = {
    "de": (
        "(?:das |dies )?wei(?:ß|ss) ich (?:das |es )?(?:leider )?nicht",
        "ich wei(?:ß|ss) (?:das |es |die antwort )?(?:leider )?nicht",
        "(?:(?:das|dies|diese frage) )?kann ich (?:(?:das|dies|diese frage) )?(?:leider )?"
        "(?:anhand (?:der|des) \\w+ )?nicht (?:beantworten|sagen)",
        "ich kann (?:das|dies|diese frage|ihre frage) (?:leider )?nicht (?:beantworten|sagen)",
        "(?:dazu|darüber|hierzu) (?:habe ich|liegen mir) (?:leider )?keine (?:angaben|daten|informationen)(?: vor)?",
        "(?:dazu|darüber|hierzu) steht in den (?:dokumenten|quellen|unterlagen) nichts",
        "(?:dazu|darüber|hierzu) sagen die (?:dokumente|quellen|unterlagen) nichts",
        "die (?:dokumente|quellen|unterlagen) (?:enthalten|sagen) dazu (?:nichts|keine informationen)",
        "der kontext (?:enthält|sagt) (?:dazu|darüber|hierzu) (?:nichts|keine informationen)",
        "keine ahnung|unbekannt",
    ),
    "fr": (
        "je (?:ne )?(?:le )?sais pas|je l'ignore|aucune idée|inconnu",
        "je ne (?:peux|sais) pas répondre(?: à (?:cette|votre|la) question)?",
        "je ne suis pas en mesure de répondre(?: à (?:cette|votre|la) question)?",
        "je n'ai pas (?:cette|assez d'|suffisamment d') ?informations?",
        "(?:le contexte|les documents) ne (?:le )?(?:dit|disent|précise|précisent|mentionne|mentionnent) pas",
    ),
    "es": (
        "(?:yo )?no (?:lo )?sé|no tengo (?:ni )?idea|lo desconozco|desconocido",
        "no puedo (?:contestar|responder)(?: a)?(?: (?:esa|esta|su|tu|la) pregunta)?",
        "no tengo (?:esa|suficiente) información",
        "(?:el contexto|los documentos) no lo (?:dicen?|indican?|mencionan?)",
    ),
    "it": (
        "(?:io )?non (?:lo )?so|non ne ho idea|sconosciuto",
        "non (?:posso|sono in grado di) rispondere(?: (?:a questa|alla) domanda)?",
        "non ho (?:abbastanza|queste|sufficienti) informazioni",
        "(?:il contesto|i documenti) non lo (?:dice|dicono|specifica|specificano)",
    ),
    "pt": (
        "(?:eu )?não (?:o )?sei|não faço ideia|desconhecido",
        "não (?:consigo|posso) responder(?: (?:a essa|a esta|à sua|à) pergunta)?",
        "não tenho (?:essa informação|informações suficientes)",
        "(?:o contexto|os documentos) não (?:o )?(?:diz|dizem|informam?|mencionam?)",
    ),
    "nl": (
        "dat weet ik (?:helaas )?niet|ik weet (?:dat|het) (?:helaas )?niet|geen idee|onbekend",
        "(?:dat|deze vraag) kan ik (?:helaas )?niet beantwoorden",
        "(?:de context vermeldt|de documenten vermelden) dat niet",
    ),
    "sv": ("(?:det )?vet jag (?:tyvärr )?inte", "jag vet (?:tyvärr )?inte", "det kan jag inte svara på"),
    "pl": (
        "(?:ja )?(?:tego )?nie wiem|nie mam pojęcia",
        "nie (?:mogę|potrafię) odpowiedzieć(?: na to pytanie)?|nie mam takich informacji",
    ),
    "ru": (
        "(?:я )?(?:этого )?не знаю(?: ответа)?|понятия не имею|неизвестно",
        "(?:я )?не могу ответить(?: на (?:этот|ваш) вопрос)?|у меня нет (?:такой|этой) информации",
        "в (?:документах|контексте) (?:об этом )?(?:не (?:говорится|сказано|указано)|нет информации)",
    ),
    "uk": ("(?:я )?(?:цього )?не знаю|невідомо", "(?:я )?не можу відповісти(?: на це (?:запитання|питання))?"),
    "tr": (
        "(?:bunu )?bilmiyorum|bilinmiyor|bu konuda bilgim yok",
        "(?:bu soruyu|sorunuzu) (?:cevaplayamıyorum|yanıtlayamıyorum)",
    ),
    "zh": (
        "我?不(?:清楚|知道)(?:答案|这个问题的答案)?|未知",
        "(?:根据(?:所)?(?:提供|给定)的(?:上下文|信息|内容|文档|资料),?)?我?(?:不能|无法)回答(?:(?:您的|此|该|这个)?问题)?",
        "(?:上下文|文档|资料)中?(?:没有|未)(?:提及|提到|说明)(?:相关(?:内容|信息))?",
    ),
    "ja": (
        "(?:わかりません|分かりません|知りません|存じません|不明です)",
        "(?:この質問|その質問|ご質問)には(?:お答えできません|回答できません|答えられません)",
        "(?:提供された)?(?:コンテキスト|情報|文書|資料)(?:から)?では?(?:お答えできません|わかりません|分かりません|回答できません)",
        "(?:提供された)?(?:コンテキスト|文書|資料)には(?:情報|記載)がありません",
    ),
    "ko": (
        "(?:저는 )?(?:잘 )?(?:모르겠습니다|모르겠어요|모릅니다)|알 수 없습니다",
        "(?:제공된 (?:문서|정보|자료)(?:로는|만으로는) )?(?:이 질문에 |질문에 )?(?:답변할|답할|대답할) 수 없습니다",
        "(?:제공된 )?(?:문서|자료)에(?:는)? (?:관련 )?(?:내용이|정보가) 없습니다",
    ),
    "ar": (
        "(?:أنا )?لا (?:أدري|أعرف|أعلم)(?: الإجابة| الجواب)?",
        "لا (?:أستطيع|يمكنني) الإجابة(?: (?:على|عن) هذا السؤال)?",
    ),
    "hi": (
        "मुझे (?:यह )?(?:नहीं पता|पता नहीं|नहीं मालूम|मालूम नहीं)(?: है)?|पता नहीं",
        "मैं (?:यह )?नहीं (?:जानता|जानती)(?: हूँ)?",
        "मैं (?:इसका|इस प्रश्न का|इस सवाल का) (?:उत्तर|जवाब) नहीं दे (?:सकता|सकती)(?: हूँ)?",
    ),
}
_OPENINGS = (
    "(?:(?:i'm|i am|we're|we are) )?(?:very |so )?(?:afraid|sorry),?(?: but| that)?|unfortunately|regrettably",
    "(?:my |our )?apologies,?(?: but)?|i apologi[sz]e,?(?: but)?",
    "based (?:only |solely )?on (?:(?:my|our) )?{source}|(?:from|given|according to) (?:(?:my|our) )?{source}",
    "(?:es )?tut mir leid,?(?: aber)?|leider|entschuldigung,?(?: aber)?",
    "(?:je suis )?désolée?,?(?: mais)?|malheureusement",
    "lo siento,?(?: pero)?|lamentablemente|desafortunadamente",
    "mi dispiace,?(?: ma)?|purtroppo|desculpe,?(?: mas)?|infelizmente|helaas|het spijt me,?(?: maar)?",
    "tyvärr|niestety|przykro mi,?(?: ale)?|к сожалению|извините,?(?: но)?|на жаль|maalesef|üzgünüm,?(?: ama)?",
    "(?:很)?抱歉|对不起|(?:大変)?申し訳(?:ありません|ございません)が?|すみませんが?|죄송합니다만?|죄송하지만",
    "عذرا|للأسف|क्षमा करें|माफ़ कीजिए",
)
"""Possible openings: an apology, or the basis of the answer."""


@cache
def _compile(forms: tuple[str, ...], end: str = "") -> re.Pattern[str]:
    """Return one pattern for all forms. Parts may contain other parts, one level deep."""
    parts = {
        name: text.format_map(_PARTS) if name in ("based", "basis", "topic") else text for name, text in _PARTS.items()
    }
    return re.compile(f"(?:{'|'.join(f'(?:{form.format_map(parts)})' for form in forms)}){end}")


_DECLINING = (*_ENGLISH, *(form for forms in _OTHERS.values() for form in forms))
_END_OF_OPENING = r"(?:$|[\s,:、]+)"
_SENTENCE_END = re.compile(r"[.!?。؟।\n;]+")
_MARKS = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'"} | dict.fromkeys('"*_«»“”„「」', " "))


def is_abstention(text: str) -> bool:
    """Return whether an answer only declines to answer."""
    if len(text) > _LONGEST:
        return False
    plain = unicodedata.normalize("NFKC", text.translate(_MARKS)).lower()
    sentences = [" ".join(part.split()).strip(" ,:、-") for part in _SENTENCE_END.split(plain)]
    bodies = [body for sentence in sentences if (body := _strip_openings(sentence))]
    declines = [_compile(_DECLINING).fullmatch(body) is not None for body in bodies]
    return any(declines) and all(
        declined or _compile(_COURTESIES).fullmatch(body) for declined, body in zip(declines, bodies, strict=True)
    )


def _strip_openings(sentence: str) -> str:
    """Return the sentence without openings like "I'm sorry, but" and "Based on the context,"."""
    while found := _compile(_OPENINGS, _END_OF_OPENING).match(sentence):
        sentence = sentence[found.end() :]
    return sentence
