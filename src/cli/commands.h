// The commands, one function each: it describes the command's flags and what it does.
#pragma once

#include "cli/command_line.h"
#include "cli/context.h"

namespace munia::cli {

void add_predict(CommandLine& line, Context& context);
void add_classify(CommandLine& line, Context& context);
void add_chat(CommandLine& line, Context& context);
void add_generate(CommandLine& line, Context& context);
void add_tokenize(CommandLine& line, Context& context);
void add_detokenize(CommandLine& line, Context& context);
void add_render(CommandLine& line, Context& context);
void add_score(CommandLine& line, Context& context);
void add_logits(CommandLine& line, Context& context);
void add_serve(CommandLine& line, Context& context);
void add_bench(CommandLine& line, Context& context);
void add_tune(CommandLine& line, Context& context);
void add_eval(CommandLine& line, Context& context);
void add_fit(CommandLine& line, Context& context);
void add_doctor(CommandLine& line, Context& context);
void add_config(CommandLine& line, Context& context);
void add_pack(CommandLine& line, Context& context);
void add_quantize(CommandLine& line, Context& context);
void add_pull(CommandLine& line, Context& context);
void add_models(CommandLine& line, Context& context);
void add_rm(CommandLine& line, Context& context);
void add_bundle(CommandLine& line, Context& context);
void add_describe(CommandLine& line, Context& context);

}  // namespace munia::cli
