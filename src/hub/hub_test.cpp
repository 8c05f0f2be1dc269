// What needs no network: the catalogue, names, resolve, local pulls, list and rm.
#include "hub/hub.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/mapped_file.h"
#include "hub/home.h"
#include "hub/record.h"
#include "hub/test_server.h"

namespace munia::hub {
namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

class HubTest : public testing::Test {
 protected:
  HubTest() { options_.home = (dir_.path() / "home").string(); }
  // A model of one weights file, as pull_local makes it.
  InstalledModel add(const std::string& name) {
    write(dir_.path() / "src" / (name + ".gguf"), "GGUF of " + name);
    return pull_local((dir_.path() / "src" / (name + ".gguf")).string(), name, options_)
        .value_or_throw();
  }
  TempDir dir_;
  HubOptions options_;
};

TEST(Catalogue, SaysWhatInterfacesPromise) {
  std::set<std::string> names;
  for (const CatalogueEntry& entry : catalogue()) {
    names.insert(entry.name);
    EXPECT_TRUE(valid_name(entry.name));
    EXPECT_TRUE(entry.licence_address.starts_with("https://")) << entry.name;
    EXPECT_FALSE(entry.licence.empty());
    EXPECT_FALSE(entry.origin.empty());
    EXPECT_FALSE(entry.sources.empty());
    for (const Source& source : entry.sources) {
      EXPECT_FALSE(source.files.empty());
      const bool packages = source.kind == SourceKind::kPythonPackages;
      EXPECT_EQ(packages, !source.joined_name.empty());
      EXPECT_EQ(packages, source.repo.empty());
      for (const SourceFile& file : source.files) {
        // Nothing from a package is ever taken unchecked.
        EXPECT_TRUE(!packages || file.sha256.size() == 64) << file.path;
        EXPECT_TRUE(!packages || file.size_bytes > 0) << file.path;
        EXPECT_EQ(packages, !file.package.empty());
      }
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"qwen1.5-0.5b-chat", "qwen1.5-0.5b",
                                          "qwen2.5-0.5b-instruct", "qwen2.5-coder-0.5b-packaged",
                                          "qwen3-0.6b", "smollm2-135m-instruct"}));
  EXPECT_EQ(catalogue().front().name, kDefaultModel);
  EXPECT_FALSE(find_entry("qwen1.5-0.5b-chat")->commercial_use);
  EXPECT_TRUE(find_entry("qwen2.5-0.5b-instruct")->commercial_use);
  EXPECT_FALSE(find_entry("qwen2.5-coder-0.5b-packaged")->origin_verified);
  EXPECT_EQ(find_entry("no-such-model"), nullptr);
}

TEST(ModelHome, FollowsTheOrderOfVariables) {
  EXPECT_EQ(model_home({"/m", "/x", "/h"}), "/m");
  EXPECT_EQ(model_home({"", "/x", "/h"}), "/x/munia");
  EXPECT_EQ(model_home({"", "relative", "/h"}), "/h/.cache/munia");
  EXPECT_EQ(model_home({"", "", "/h"}), "/h/.cache/munia");
  EXPECT_EQ(model_home({}), "");
}

TEST(Names, KeepInsideTheHome) {
  for (const char* good : {"a", "Qwen3-0.6B", "a_b.c-d"}) EXPECT_TRUE(valid_name(good));
  for (const char* bad : {"", ".", "..", ".hidden", "-x", "a/b", "a b", "中文", "a\n"}) {
    EXPECT_FALSE(valid_name(bad)) << bad;
  }
  EXPECT_EQ(*name_of_repo("Qwen/Qwen3-0.6B"), "Qwen--Qwen3-0.6B");
  for (const char* bad : {"", "Qwen", "/x", "x/", "a/b/c", "../x", "x/..", "a/b?c", "a/b#"}) {
    EXPECT_FALSE(name_of_repo(bad)) << bad;
  }
}

TEST(Messages, ShowTypedBytesSafely) {
  EXPECT_EQ(shown("a\x1b[31m"), "\"a?[31m\"");
  const std::string cut = shown(std::string(199, 'a') + "中中");
  EXPECT_EQ(cut, "\"" + std::string(199, 'a') + "…\"");  // not half a character
}

TEST_F(HubTest, ResolveTakesPathsAsTheyAre) {
  write(dir_.path() / "m.gguf", "x");
  write(dir_.path() / "m.bin", "x");
  EXPECT_EQ(*resolve((dir_.path() / "m.gguf").string(), options_), dir_.path() / "m.gguf");
  EXPECT_EQ(*resolve(dir_.path().string(), options_), dir_.path());
  EXPECT_EQ(resolve((dir_.path() / "m.bin").string(), options_).error().code,
            ErrorCode::kUnsupported);
}

TEST_F(HubTest, ResolveSaysWhatToType) {
  auto known = resolve("qwen3-0.6b", options_);
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, ErrorCode::kNotFound);
  EXPECT_NE(known.error().message.find("munia pull qwen3-0.6b"), std::string::npos);
  auto repo = resolve("hf:Qwen/Qwen3-0.6B", options_);
  EXPECT_NE(repo.error().message.find("munia pull hf:Qwen/Qwen3-0.6B"), std::string::npos);
  auto path = resolve("./none.gguf", options_);
  EXPECT_NE(path.error().message.find("does not exist"), std::string::npos);
  EXPECT_EQ(path.error().message.find("munia pull"), std::string::npos);
  auto unknown = resolve("gpt-17", options_);
  EXPECT_NE(unknown.error().message.find("smollm2-135m-instruct"), std::string::npos);
  EXPECT_FALSE(resolve("", options_));
  EXPECT_FALSE(fs::exists(options_.home));  // asking makes nothing
}

TEST_F(HubTest, LocalFileBecomesAModel) {
  const InstalledModel model = add("mine");
  EXPECT_EQ(model.path, options_.home + "/mine/mine.gguf");
  EXPECT_EQ(*read_file(model.path, 100), "GGUF of mine");
  EXPECT_EQ(model.size_bytes, 12U);
  EXPECT_EQ(*resolve("mine", options_), model.path);
  EXPECT_NE(describe(model).find("licence not known"), std::string::npos);
  EXPECT_FALSE(pull_local(model.path, "mine", options_));  // the name is taken
  EXPECT_FALSE(pull_local(model.path, "../evil", options_));
  EXPECT_EQ(pull_local("/no/such/file.gguf", "x", options_).error().code, ErrorCode::kNotFound);
}

TEST_F(HubTest, LocalDirectoryFollowsLinksAndLeavesTheRest) {
  const fs::path src = dir_.path() / "snapshot";
  write(dir_.path() / "blobs" / "1", "weights");
  write(src / "config.json", "{}");
  write(src / "pytorch_model.bin", "pickle");
  fs::create_symlink("../blobs/1", src / "model.safetensors");
  const InstalledModel model = pull_local(src.string(), "dir", options_).value_or_throw();
  EXPECT_EQ(model.path, options_.home + "/dir");
  EXPECT_EQ(model.size_bytes, 9U);
  EXPECT_FALSE(fs::is_symlink(fs::path(model.path) / "model.safetensors"));
  EXPECT_FALSE(fs::exists(fs::path(model.path) / "pytorch_model.bin"));
  write(dir_.path() / "empty" / "notes.txt", "x");
  EXPECT_EQ(pull_local((dir_.path() / "empty").string(), "e", options_).error().code,
            ErrorCode::kInvalidData);
}

TEST_F(HubTest, LocalFilesGetNamesThatABundleCanHold) {
  write(dir_.path() / "my model.gguf", "GGUF");
  write(dir_.path() / "模型.munia", "MUNIA");
  InstalledModel model =
      pull_local((dir_.path() / "my model.gguf").string(), "x", options_).value_or_throw();
  EXPECT_EQ(model.path, options_.home + "/x/x.gguf");
  const std::string longest(120, 'n');
  model = pull_local((dir_.path() / "模型.munia").string(), longest, options_).value_or_throw();
  EXPECT_EQ(model.path, options_.home + "/" + longest + "/model.munia");
  EXPECT_NE(pull((dir_.path() / "模型.munia").string(), options_).error().message.find("--name"),
            std::string::npos);
  // A directory as macOS and people leave it.
  const fs::path src = dir_.path() / "src dir";
  write(src / "config.json", "{}");
  write(src / "model.safetensors", "weights");
  for (const char* odd : {"._config.json", "._model.safetensors", "my notes.txt", "说明.txt"}) {
    write(src / odd, "odd");
  }
  std::string notes;
  PullCallbacks callbacks;
  callbacks.on_note = [&](const std::string& text) { notes += text + "\n"; };
  model = pull_local(src.string(), "dir", options_, callbacks).value_or_throw();
  EXPECT_EQ(model.size_bytes, 9U);
  EXPECT_NE(notes.find("\"my notes.txt\" is left out"), std::string::npos) << notes;
  EXPECT_NE(notes.find("说明.txt"), std::string::npos) << notes;
  EXPECT_EQ(notes.find("._"), std::string::npos) << notes;
  for (const char* name : {"x", longest.c_str(), "dir"}) {
    const std::string tar = (dir_.path() / "包 裹.tar").string();
    ASSERT_TRUE(write_bundle(name, tar, true, options_));
    HubOptions other;
    other.home = (dir_.path() / "other").string();
    EXPECT_EQ(pull(tar, other).value_or_throw().name, name);
  }
  // A shard's name is in the index, so it cannot be another.
  write(src / "model 2.safetensors", "weights");
  const auto refused = pull_local(src.string(), "two", options_);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("\"model 2.safetensors\""), std::string::npos);
}

TEST_F(HubTest, ABundleThatCouldNotBePulledIsNotWritten) {
  // As earlier versions took it.
  const fs::path file = add("m").path;
  fs::rename(file, file.parent_path() / "my m.gguf");
  const fs::path record = file.parent_path() / "munia-model.json";
  std::string text = *read_file(record.string(), 10000);
  text.replace(text.find("\"m.gguf\""), 8, "\"my m.gguf\"");
  write(record, text);
  ASSERT_TRUE(find_model("m", options_));
  const fs::path tar = dir_.path() / "m.tar";
  const auto refused = write_bundle("m", tar.string(), false, options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidData);
  EXPECT_NE(refused.error().message.find("\"my m.gguf\""), std::string::npos);
  EXPECT_FALSE(fs::exists(tar));
}

TEST_F(HubTest, AKilledBundleLeavesNothingInTheWay) {
  add("m");
  const fs::path tar = dir_.path() / "m.tar";
  const fs::path part = dir_.path() / "m.tar.part";
  write(part, std::string(100000, 'x'));  // longer than the bundle
  const int other = open(part.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  EXPECT_EQ(write_bundle("m", tar.string(), false, options_).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(fs::file_size(part), 100000U);  // not this process's to touch
  close(other);
  const auto size = write_bundle("m", tar.string(), false, options_);
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_LT(*size, 100000U);
  EXPECT_FALSE(fs::exists(part));
  HubOptions there;
  there.home = (dir_.path() / "there").string();
  EXPECT_TRUE(pull(tar.string(), there));
}

TEST_F(HubTest, ARecordThatWasBeingWrittenIsNoFileOfTheModel) {
  const fs::path ready = fs::path(options_.home) / ".partial/m/address/ready";
  write(ready / "m.gguf", "GGUF");
  for (const char* left : {"munia-model.json", "munia-model.json.new", "munia-model.json.new-77"}) {
    write(ready / left, "{");
  }
  InstalledModel model;
  model.name = "m";
  model = install(Home{options_.home}, ready, model).value_or_throw();
  EXPECT_EQ(model.size_bytes, 4U);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(options_.home) / "m")) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"m.gguf", "munia-model.json"}));
}

TEST_F(HubTest, APathThatIsNotUtf8DoesNotSpoilTheRecord) {
  const fs::path file = dir_.path() / "\xff.gguf";
  write(file, "GGUF");
  ASSERT_TRUE(pull_local(file.string(), "x", options_));
  EXPECT_TRUE(find_model("x", options_));
}

TEST_F(HubTest, LocalCopyOfACatalogueModelKeepsItsLicence) {
  const InstalledModel model = add("qwen1.5-0.5b-chat");
  EXPECT_EQ(model.licence, "tongyi-qianwen-research");
  EXPECT_FALSE(model.origin_verified);
  // It is here, so neither needs a network.
  options_.offline = true;
  EXPECT_EQ(pull("qwen1.5-0.5b-chat", options_).value_or_throw().path, model.path);
  EXPECT_EQ(pull_default(options_).value_or_throw().path, model.path);
}

TEST_F(HubTest, ListAndRemove) {
  EXPECT_TRUE(list_models(options_).value_or_throw().empty());
  add("b");
  add("a");
  write(fs::path(options_.home) / "notes" / "readme.txt", "not a model");
  const auto models = list_models(options_).value_or_throw();
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].name, "a");
  EXPECT_EQ(models[1].name, "b");
  EXPECT_TRUE(remove_model("a", options_));
  EXPECT_FALSE(fs::exists(fs::path(options_.home) / "a"));
  EXPECT_EQ(list_models(options_).value_or_throw().size(), 1U);
  EXPECT_EQ(remove_model("a", options_).error().code, ErrorCode::kNotFound);
  // What munia did not put there stays.
  EXPECT_EQ(remove_model("notes", options_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(remove_model("../src", options_).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(fs::exists(fs::path(options_.home) / "notes" / "readme.txt"));
}

TEST_F(HubTest, NoModelIsNamedDefault) {
  write(dir_.path() / "default.gguf", "GGUF");
  const std::string file = (dir_.path() / "default.gguf").string();
  for (const auto& refused : {pull_local(file, "default", options_), pull(file, options_),
                              pull("http://127.0.0.1:1/default.gguf", options_)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find("no model can be named"), std::string::npos);
  }
  // Nothing is in the way of a default.
  add(std::string(kDefaultModel));
  options_.offline = true;
  EXPECT_EQ(pull_default(options_).value_or_throw().name, kDefaultModel);
  EXPECT_EQ(find_default(options_).value_or_throw().name, kDefaultModel);
}

TEST_F(HubTest, AModelNamedDefaultOfAnEarlierVersionCanBeRemoved) {
  add(std::string(kDefaultModel));
  add("old");
  fs::rename(fs::path(options_.home) / "old", fs::path(options_.home) / "default");
  options_.offline = true;
  const auto refused = pull_default(options_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("munia rm default"), std::string::npos);
  EXPECT_TRUE(remove_model("default", options_));
  EXPECT_TRUE(pull_default(options_));
}

TEST_F(HubTest, ADamagedRecordIsSaidAndCanBeRemoved) {
  add("m");
  write(fs::path(options_.home) / "outside.gguf", "x");
  for (const char* text :
       {"", "[]", "{\"files\":[{\"name\":\"../outside.gguf\"}]}", "{\"files\":1}"}) {
    write(fs::path(options_.home) / "m" / "munia-model.json", text);
    auto found = resolve("m", options_);
    ASSERT_FALSE(found) << text;
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidData);
    EXPECT_NE(found.error().message.find("munia rm m"), std::string::npos);
    EXPECT_EQ(list_models(options_).value_or_throw().size(), 1U);
  }
  EXPECT_TRUE(remove_model("m", options_));
  EXPECT_TRUE(list_models(options_).value_or_throw().empty());
}

TEST_F(HubTest, AMissingFileIsNoModel) {
  const InstalledModel model = add("m");
  fs::remove(model.path);
  EXPECT_EQ(resolve("m", options_).error().code, ErrorCode::kInvalidData);
}

TEST_F(HubTest, WithoutAHomeOnlyPathsResolve) {
  write(dir_.path() / "m.gguf", "x");
  options_.home.clear();
  EXPECT_TRUE(resolve((dir_.path() / "m.gguf").string(), options_));
  EXPECT_FALSE(resolve("qwen3-0.6b", options_));
  EXPECT_NE(pull("qwen3-0.6b", options_).error().message.find("MUNIA_HOME"), std::string::npos);
}

TEST_F(HubTest, OfflineOpensNothing) {
  options_.offline = true;
  options_.python = {"/no/such/python"};
  EXPECT_EQ(pull("smollm2-135m-instruct", options_).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(pull_default(options_).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace munia::hub
