// The main of a fuzzer in normal builds: runs LLVMFuzzerTestOneInput over every file of the
// folders given as arguments. Fails when a folder is missing or empty, so that a lost corpus is
// noticed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    std::error_code code;
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], code)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
    if (code || paths.empty()) {
      std::fprintf(stderr, "%s: %s\n", argv[i], code ? code.message().c_str() : "no files");
      return 1;
    }
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::ifstream in(path, std::ios::binary);
      const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
      if (!in && !in.eof()) {
        std::fprintf(stderr, "cannot read %s\n", path.c_str());
        return 1;
      }
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    }
    std::printf("%s: %zu inputs replayed\n", argv[i], paths.size());
  }
  return 0;
}
