#!/usr/bin/env python3
"""Writes tests/data/templates/{goldens.json,expressions.json} by asking the reference: jinja2 in the
environment that Hugging Face transformers sets up for chat templates.

  goldens.json      every template of the folder with every context of template_contexts.py, rendered
                    by the compiled template as it is ("render"), and through apply_chat_template's
                    own steps ("chat"), which complete and normalize the messages;
  expressions.json  small templates, one construct each, with the result or the kind of error.

Usage: python3 tools/make_template_goldens.py [--gguf NAME=FILE]...
--gguf NAME=FILE first copies the metadata tokenizer.chat_template of FILE to NAME.jinja.
Needs transformers, jinja2 and, for --gguf, gguf.
"""
import argparse
import json
import sys
from pathlib import Path

import jinja2
import transformers
from transformers.utils.chat_template_utils import (
    _compile_jinja_template,
    _normalize_chat_messages,
    render_jinja_template,
)

sys.path.insert(0, str(Path(__file__).parent))
import template_contexts
import template_expressions

DATA = Path(__file__).parent.parent / "tests" / "data" / "templates"


def outcome(render):
    """The text, or ["error", kind, message]; the message only where the template chose it."""
    try:
        return render()
    except jinja2.exceptions.TemplateSyntaxError:
        return ["error", "syntax"]
    except jinja2.exceptions.UndefinedError as e:
        return ["error", "undefined", str(e)]
    except jinja2.exceptions.SecurityError:
        return ["error", "security"]
    except jinja2.exceptions.TemplateRuntimeError:
        return ["error", "runtime"]
    except jinja2.exceptions.TemplateError as e:
        return ["error", "raised", str(e)]
    except (TypeError, ValueError, ZeroDivisionError, LookupError, OverflowError,
            AttributeError, AssertionError, SyntaxError, RecursionError) as e:
        return ["error", type(e).__name__]


def chat(source, context):
    context = dict(context)
    messages = _normalize_chat_messages(context.pop("messages"))
    tools = context.pop("tools", None)
    documents = context.pop("documents", None)
    generation = context.pop("add_generation_prompt", False)
    rendered, _ = render_jinja_template(
        conversations=[messages], tools=tools, documents=documents, chat_template=source,
        add_generation_prompt=generation, **context)
    return rendered[0]


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":"))
    text = text.replace('],["', '],\n["').replace('},{"', '},\n{"')
    (DATA / name).write_text(text + "\n", encoding="utf-8")
    print(f"{name}: {len(text.encode())} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", action="append", default=[], metavar="NAME=FILE")
    args = parser.parse_args()
    for item in args.gguf:
        name, file = item.split("=", 1)
        import gguf

        field = gguf.GGUFReader(file).fields["tokenizer.chat_template"]
        text = bytes(field.parts[field.data[0]]).decode()
        (DATA / f"{name}.jinja").write_text(text, encoding="utf-8")

    contexts = template_contexts.contexts()
    goldens = {"transformers": transformers.__version__, "jinja2": jinja2.__version__,
               "contexts": contexts, "templates": {}}
    for path in sorted(DATA.glob("*.jinja")):
        source = path.read_bytes().decode()
        template = _compile_jinja_template(source)
        rows = []
        for context in contexts:
            plain = outcome(lambda: template.render(**context))
            full = outcome(lambda: chat(source, context))
            rows.append([plain] if plain == full else [plain, full])
        goldens["templates"][path.name] = rows
    write("goldens.json", goldens)

    rows = []
    for source, *variables in template_expressions.CASES:
        context = variables[0] if variables else template_expressions.CONTEXT
        result = outcome(lambda: _compile_jinja_template(source).render(**context))
        assert isinstance(result, list) or " at 0x" not in result, source
        rows.append([source, result, *variables])
    write("expressions.json", {"context": template_expressions.CONTEXT, "cases": rows})
    print(len(contexts), "contexts,", len(goldens["templates"]), "templates,", len(rows), "cases")


if __name__ == "__main__":
    main()
