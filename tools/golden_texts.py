"""Texts of our own writing that the goldens of real models are made of: Chinese, English, code,
numbers, emoji, odd spaces. Nothing in here is quoted from anywhere."""

PASSAGES = [
    "今天的实验终于成功了，太棒了！",
    "清晨的河面上飘着一层薄雾，渡船还没有开，几只白鹭站在浅水里一动不动。卖豆浆的老人把炉子支在码头边，"
    "热气一阵一阵地往上冒，等船的人就围过来，一边暖手一边说着昨天夜里的雨。",
    "The library closes at eight, but the reading room on the second floor stays open until ten. "
    "If you bring your own cup, the tea is free; the biscuits, unfortunately, are not.",
    "def moving_average(values, width):\n"
    "    \"\"\"Mean of each window of `width` values.\"\"\"\n"
    "    total = sum(values[:width])\n"
    "    result = [total / width]\n"
    "    for i in range(width, len(values)):\n"
    "        total += values[i] - values[i - width]\n"
    "        result.append(total / width)\n"
    "    return result\n",
    "物流很快，包装也结实，就是颜色和图片差得有点多 😅，想退又嫌麻烦，算了，给三颗星吧⭐⭐⭐",
    "She had kept the old radio because of its dial: a warm yellow strip with the names of cities that "
    "no longer sent anything. On winter evenings she turned the knob slowly from one end to the other, "
    "listening to the noise between the stations as other people listen to the sea.",
    "SELECT city, COUNT(*) AS n, AVG(price) FROM orders WHERE created_at >= '2024-03-01' "
    "GROUP BY city HAVING COUNT(*) > 25 ORDER BY n DESC LIMIT 10;",
    "客服回复：您好，您的订单（编号 20240613-0087）已于6月13日14:25发出，预计2～3天送达，请保持电话畅通。",
    "3.14159 26535 89793; 1,024 × 768 = 786,432; −40 °C = −40 °F; 0x7F3A; 1e-7; 50% off!!!",
    "Mixed line 中英文混排：我用 Python 3.11 写了一个小工具，把 CSV 转成 JSON，然后 push 到了自己的服务器上。",
    "    \t  four spaces, a tab, two spaces\n\n\nthree line ends\r\nand a carriage return  \n",
    "🎉🎉 生日快乐！👨‍👩‍👧‍👦 一家人整整齐齐 🇨🇳 👍🏽 ❤️‍🔥 ✨",
    "为什么天空是蓝色的？因为空气分子对短波长的光散射得更强，太阳光里的蓝光就被送到了四面八方；到了傍晚，"
    "光要穿过更厚的空气，蓝光在路上散得差不多了，剩下的红光和橙光才到我们眼里。",
    "#include <vector>\n\nint longest_run(const std::vector<int>& xs) {\n  int best = 0, run = 0;\n"
    "  for (size_t i = 0; i < xs.size(); ++i) {\n    run = (i > 0 && xs[i] == xs[i - 1]) ? run + 1 : 1;\n"
    "    if (run > best) best = run;\n  }\n  return best;\n}\n",
    "Dear neighbour, the parcel for flat 14B came on Thursday while you were away. It is rather heavy "
    "and it rattles; I have put it under the stairs next to the bicycles. Please don't lift it alone.",
    "這家小店開在巷子裡，招牌已經褪色，但是牛肉麵的味道一直沒有變。老闆記得每一位客人要不要加辣。",
    "Der Zug fährt um 7.42 Uhr ab. Où est la gare ? ¿Cuánto cuesta el billete? Дождь идёт с утра. "
    "今日は雨です。오늘은 비가 옵니다. Καλημέρα. שלום. مرحبا.",
    "{\"name\": \"munia\", \"kind\": \"bird\", \"weight_g\": 12.5, \"colours\": [\"brown\", \"white\"], "
    "\"nest\": {\"height_m\": 2, \"eggs\": null}}",
    "手机用了不到一个月就开始发烫，电池掉得飞快，打电话给售后，说要寄回去检测十五天，实在让人失望。",
    "How to boil an egg: put it into cold water, bring the water to the boil, then wait six minutes for "
    "a soft yolk or nine for a hard one. Cool it under the tap, or it goes on cooking in its shell. "
    "Old eggs peel more easily than fresh ones, and nobody quite agrees why.",
    "第一章　风从北边来\n村里的人都说，只要山顶的云压到半腰，第二天准有大风。阿禾不信，她把晒好的谷子摊在场上，"
    "拿竹耙一遍一遍地翻。到了半夜，窗纸哗哗地响起来，她披着衣服跑出去，月亮底下，金黄的谷粒像一条河，"
    "正顺着石阶往下流。她愣了一会儿，忽然笑了，蹲下来，用手去接。",
    "git commit -m \"fix: close the file on error\" && git push origin main  # then open a review",
    "$ make test\n[ 12%] Building CXX object src/CMakeFiles/text.dir/bpe.cpp.o\nwarning: unused variable 'n'\n"
    "214 passed, 0 failed, 3 skipped\n",
    "价格：￥1,299.00（原价￥1,599.00），满300减40，会员再享9.5折；库存仅剩７件。",
    "The committee met twice. The first time nobody could find the key to the hall, so they talked in the "
    "car park until it rained; the second time they had the key but not the minutes of the first meeting, "
    "and so, after a long silence, somebody proposed that they should simply begin again from the start. "
    "This was carried by seven votes to two, with one member asleep.",
    "春眠之后总觉得时间过得慢。午后的阳光从百叶窗里漏进来，一格一格地爬过书桌，停在没有写完的信上。"
    "我想了想，还是决定明天再写：有些话放一放，反而说得清楚。",
    "| item | qty | price |\n|------|----:|------:|\n| rope | 3 | 4.20 |\n| lamp | 1 | 18.00 |\n",
    "To whom it may concern: I'd've come sooner if they'd told me it wasn't Tuesday's meeting, y'all.",
    "用户：我最近总是睡不好，白天没有精神。\n助手：听起来你这段时间很辛苦。睡前一小时可以试着放下手机，"
    "把灯调暗一些，让身体慢慢安静下来。\n用户：好的，我今晚试试。",
    "for n in range(1, 101):\n    print('Fizz' * (n % 3 == 0) + 'Buzz' * (n % 5 == 0) or n)\n",
    "The bird is small and brown and eats seeds; it lives in flocks and is seldom heard alone.",
    "面试的时候他们问我最大的缺点是什么，我说太诚实。面试官说这不算缺点，我说我不在乎你怎么想。",
]

CHATS = [  # user messages for greedy replies
    "今天的实验终于成功了，太棒了！",
    "我考试没有通过，心里很难受。",
    "Write a Python function that reverses a string.",
    "What is the capital of France?",
    "用一句话解释什么是二分查找。",
    "Explain what a hash table is in two sentences.",
    "请把下面的句子翻译成英文：明天早上八点在车站见。",
    "1 + 2 * 3 等于多少？",
    "Give me three ideas for a rainy Sunday.",
    "写一个 C++ 函数，判断一个整数是不是质数。",
    "这家餐厅的服务太差了，等了一个小时才上菜。",
    "Why is the sky blue?",
    "帮我写一条生日祝福，送给我的妈妈。",
    "Fix this code: for i in range(10) print(i)",
    "推荐一种适合初学者的运动，并说明理由。",
    "Translate to Chinese: The train leaves at nine.",
    "SQL 里 LEFT JOIN 和 INNER JOIN 有什么区别？",
    "I lost my keys and I am late for work.",
    "列出五种水果。",
    "😀😀😀",
]

REVIEWS = [  # texts to be labelled
    "今天的实验终于成功了，太棒了！",
    "手机用了不到一个月就开始发烫，非常失望。",
    "物流很快，包装也很好，下次还会来。",
    "味道一般，没有想象中那么好。",
    "客服态度恶劣，问了三次都不回答。",
    "书的纸张很好，印刷清楚，孩子很喜欢。",
    "房间里有一股霉味，窗户也关不上。",
    "性价比很高，推荐购买！",
    "收到的苹果有一半是烂的。",
    "还行吧，能用。",
    "屏幕清晰，音质也不错，就是有点重。",
    "等了两个小时才送到，饭都凉了。",
    "老板人很好，还送了一份小菜 👍",
    "衣服掉色严重，洗了一次就不能穿了。",
    "The battery lasts for two days and the screen is bright. I love it.",
    "It broke after a week and nobody answers my mails.",
    "酒店位置方便，离地铁站只有五分钟。",
    "键盘声音太大，晚上没法用，打算退货。",
    "第二次买了，一如既往地好。",
    "说明书看不懂，装了半天也没装上 😡",
]
