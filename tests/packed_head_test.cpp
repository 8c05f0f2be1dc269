// The 8-bit copy of the head in a packed file: taken as it is, or made where the file has none.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "engine/model_bundle.h"

namespace munia::engine {
namespace {

constexpr const char* kModel = MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16";

class PackedHead : public testing::Test {
 protected:
  std::shared_ptr<const ModelBundle> load(const std::string& path, model::HeadMode head,
                                          model::LoadWay way = model::LoadWay::kCopy) {
    BundleOptions options;
    options.head = head;
    options.load = way;
    return load_bundle(path, options, pool_);
  }

  // A packed file of a bundle that was loaded with `head`.
  std::string pack(model::HeadMode head) {
    const auto path = std::filesystem::path(testing::TempDir()) /
                      ("packed_head_" + std::to_string(static_cast<int>(head)) + "_" +
                       std::to_string(getpid()) + ".munia");
    paths_.push_back(path);
    const auto bundle = load(kModel, head);
    EXPECT_TRUE(pack_bundle(*bundle, *bundle->model, path.string(), "test", {}));
    return path.string();
  }

  void TearDown() override {
    for (const auto& path : paths_) std::filesystem::remove(path);
  }

  ThreadPool pool_{{.n_threads = 2, .cpus = {}, .spin_us = 20}};
  std::vector<std::filesystem::path> paths_;
};

void expect_same(const model::HeadScreen& a, const model::HeadScreen& b) {
  ASSERT_GT(a.size_bytes(), 0U);
  ASSERT_EQ(a.size_bytes(), b.size_bytes());
  EXPECT_EQ(std::memcmp(a.matrix.data, b.matrix.data, a.size_bytes()), 0);
}

TEST_F(PackedHead, IsTheOneThatWasMade) {
  const auto source = load(kModel, model::HeadMode::kScreened);
  const std::string path = pack(model::HeadMode::kScreened);
  const auto mapped = load(path, model::HeadMode::kScreened, model::LoadWay::kMap);
  const auto copied = load(path, model::HeadMode::kScreened, model::LoadWay::kCopy);
  expect_same(mapped->model->head_screen(), source->model->head_screen());
  expect_same(copied->model->head_screen(), source->model->head_screen());
  EXPECT_EQ(mapped->model->head_screen().memory.size_bytes(), 0U) << "used where it is mapped";
  EXPECT_EQ(load(path, model::HeadMode::kFull)->model->head_screen().size_bytes(), 0U);
}

TEST_F(PackedHead, IsMadeWhereTheFileHasNone) {
  const std::string path = pack(model::HeadMode::kFull);
  for (const auto way : {model::LoadWay::kMap, model::LoadWay::kCopy}) {
    expect_same(load(path, model::HeadMode::kScreened, way)->model->head_screen(),
                load(kModel, model::HeadMode::kScreened)->model->head_screen());
  }
}

}  // namespace
}  // namespace munia::engine
