"""The texts of the end-to-end rows, and the articles' prompts."""

import itertools

PROMPT_A = ('你是一个冷酷的情感分析师，只输出"正面"或"负面"，不加解释、不加标点、不加空格，且必须以中文输出。')
REPLY_SYSTEM = "你是一个温暖、简洁、有同理心的助手。"
LABELS = ["正面", "负面"]
BATCH_SIZES = [1, 4, 8, 16, 32]

PREDICT_TEXTS = [
    "今天的实验终于成功了，太棒了！",
    "排队两小时，饭菜还是凉的。",
    "新买的耳机音质很好，就是充电有点慢。",
    "周末和老朋友一起爬山，风景美极了。",
]

_OPENINGS = ["昨天下午", "上个星期", "今天一早", "搬家以后", "放假的时候", "下班路上"]
_SUBJECTS = ["在网上买的这台咖啡机", "楼下新开的那家面馆", "公司附近的健身房", "朋友推荐的这本小说",
             "客服给我换的新键盘", "孩子报名的绘画课"]
_VERDICTS = ["比我想的要好得多，全家人都很喜欢", "用了两天就出毛病，找谁都没有人管",
             "价钱不便宜，但是做得非常用心", "态度差还不肯退钱，以后再也不会来了",
             "细节处处让人惊喜，真心推荐给大家", "等了很久才等到，结果却让人失望"]


def article_prompt(text):
    """Prompt A and the text without a template, as the article's code has it."""
    return f"{PROMPT_A}\n用户输入：{text}"


def thirty_token_texts(n):
    """n different texts of about 30 tokens, neighbours unlike each other."""
    all_texts = [f"{a}，{b}{c}，这是我自己的真实感受，仅供大家参考。" for c, b, a in
                 itertools.product(_VERDICTS, _SUBJECTS, _OPENINGS)]
    if n > len(all_texts):
        raise ValueError(f"{n} texts wanted, there are {len(all_texts)}")
    step = 73  # coprime to 216
    return [all_texts[i * step % len(all_texts)] for i in range(n)]
