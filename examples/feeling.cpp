// The C++ interface on one page: load, tokenize, render, label, answer with a callback, score,
// cancel. Usage: munia_example MODEL [TEXT]
#include <munia/munia.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: munia_example MODEL [TEXT]\n");
    return 2;
  }
  const std::string text = argc > 2 ? argv[2] : "今天的实验终于成功了，太棒了！";
  try {
    const munia::Model model(argv[1]);
    const munia::ModelInfo info = model.info();
    std::printf("model: %s, %s, %d threads\n", info.name.c_str(), info.weights.c_str(),
                info.threads);

    const munia::Ids ids = model.tokenize(text);
    std::printf("tokens: %zu, back to the same text: %s\n", ids.size(),
                model.detokenize(ids) == text ? "yes" : "no");

    const munia::Rendered prompt = model.render({{"user", text}});
    std::printf("prompt: %zu tokens\n", prompt.ids.size());

    const std::vector<munia::Labelled> labelled = model.classify({text});
    for (const auto& [label, probability] : labelled.front().probabilities) {
      std::printf("label: %s %.4f\n", label.c_str(), probability);
    }
    const auto scores = model.score(text, {"好", "坏"});
    std::printf("scores: %.3f %.3f\n", scores[0], scores[1]);

    munia::GenerateOptions options;
    options.max_tokens = 16;
    std::printf("reply: ");
    std::string streamed;
    const munia::Generated reply =
        model.chat({{"user", text}}, options, [&streamed](std::string_view piece) {
          streamed += piece;
          std::fwrite(piece.data(), 1, piece.size(), stdout);
          std::fflush(stdout);
        });
    std::printf("\nstreamed as one: %s, finish: %s\n", streamed == reply.text ? "yes" : "no",
                reply.finish_reason.c_str());

    options.max_tokens = 1000;
    munia::Generation generation = model.start(prompt.ids, options);
    generation.cancel();
    try {
      generation.wait();
      std::printf("cancelled: ended before\n");
    } catch (const munia::Cancelled&) {
      std::printf("cancelled: yes\n");
    }
  } catch (const munia::ModelLoadError& error) {
    std::fprintf(stderr, "cannot load: %s\n", error.what());
    return 3;
  } catch (const munia::Exception& error) {
    std::fprintf(stderr, "failed: %s\n", error.what());
    return 1;
  }
  return 0;
}
