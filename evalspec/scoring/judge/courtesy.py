"""Leave out what a text says without stating anything: no judge has to make statements of a greeting."""

import re

from evalspec.scoring.judge.belonging import content_words

_BEGINNINGS = """
absolute answer anything apolog appreciat ask assist certain clarif contact course day dear definite detail enjoy
excellent feel find free further glad good great happy hear hello help hesitat hey hi hope know let patien pleas
question reach regard sorry sure thank trouble understand unfortunat welcome wish worr
anfrage bei dank damen danke entschuldig frage freu freundlich geehrt gern gruß grüß guten hallo helfe herren hilf hoff
interesse jederzeit leider lieb meld nachricht natürlich selbstverständlich tag team tun verfügung weiter wünsch zöger
aide avec besoin bien bonjour bonne comprends contacte cordial demande disposition désolé espère hésite journée
malheureusement merci message plaisir précision ravi reste répon serai sûr votre vous écoute
atento ayud buen claro consult duda dude día encanta espero estaré gracias gusto hola información lamentabl necesit
pregunta quedo saludo sí tengas útil aiut assistenza buon certo ciao client contatt cordiali disposizione domand
felice gentil grazie piacere purtroppo richiesta ringrazi salut spero stato util
agrade ajud boa contat dúvida feliz infelizmente mensagem obrigad olá pergunt prazer tarde tenha ótimo
bedankt bericht fijne graag helaas hoop laat vraag vrag weten dig fler fråg gärna hej hjälp hoppas hör tack tyvärr
chętnie dobry dzień dzięk kontakt nadziej niestety pomo prosz pyta допомо дяку жаль запитан звертай маєте сподіва якщо
благодар буд вопрос всего день добр если есть ещё здравств надеюсь обращ пожалуйста помо рад сожалению спасибо ще
감사 기꺼이 다른 도와 도움 되셨 드리 문의 바랍니다 안녕 언제든 있으시면 주세요 주셔서 질문
başka duyar lütfen maalesef memnun merhaba mutlu olmak size soru sorun teşekkür umarım varsa yardım
آمل أخرى أسئلة التواصل تتردد سؤال شكر لديك مساعد مرحب مفيد يسعد يكون
आपक आशा करके कृपया कोई खुशी धन्यवाद नमस्त पूछ प्रश्न मदद मिली मुझे यदि लिए सहायता हों होगी
"""
"""Beginnings of words. Those of up to three letters are whole words."""
_LONGEST_WHOLE = 3
_UNSPACED = """
一个 为您 以上 信息 其他 咨询 好的 如有 希望 帮助 帮您 当然 很好 很高兴 您 您好 愉快 感谢 我们 我来 提问 服务 欢迎
祝您 等待 耐心 联系 解答 谢谢 这是 问题 随时 ありがとう いたしま いただ お問い合わせ お役に立て お手伝い お待たせ
お気軽に お願い ください こんにちは ご不明な点 ございま ご質問 よろしく 今後とも 喜んで 幸い
"""
_SPACED = "|".join(word + (r"\w*" if len(word) > _LONGEST_WHOLE else r"(?!\w)") for word in _BEGINNINGS.split())
_COURTESY = re.compile(rf"\b(?:{_SPACED})|{'|'.join(_UNSPACED.split())}", re.IGNORECASE)
"""Words of greetings, thanks, wishes, regrets and offers to help."""

_CODE_AND_LINKS = re.compile(r"```.*?(?:```|\Z)|https?://\S+", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?؟।])\s+|(?<=[。！？])|\n")
_STATES_NOTHING = (":", "：", "?", "？", "؟")
"""Ends of introductions and questions."""


def strip_courtesies(text: str) -> str:
    """Return the sentences of a text, one a line, without code, links, introductions, questions and courtesies.

    At least half of the content words of a courtesy are words of greetings, thanks, wishes and the like.
    """
    sentences = dict.fromkeys(map(str.strip, _SENTENCE_END.split(_CODE_AND_LINKS.sub("\n", text))))
    return "\n".join(sentence for sentence in sentences if _may_state(sentence))


def _may_state(sentence: str) -> bool:
    left = content_words(_COURTESY.sub(" ", sentence))
    return 2 * len(left) > len(content_words(sentence)) and not sentence.endswith(_STATES_NOTHING)
