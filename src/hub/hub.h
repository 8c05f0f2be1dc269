// Models on this machine: fetch them (pull), find them (resolve), list and remove them. The only
// room that opens an outgoing socket, and only inside pull() and pull_default(). Knows nothing of
// what is inside a model's files. Reads no environment and prints nothing: the command line passes
// HubOptions and shows what the callbacks say.
//
// Under `home` each model is one directory, HOME/NAME/, which appears by one rename when everything
// in it has been checked; unfinished downloads wait in HOME/.partial/, where nobody looks for a
// model. All functions are safe to call from several processes: pulls of one name exclude another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "hub/catalogue.h"

namespace munia::hub {

/// The three environment variables that decide where models live; empty when unset.
struct HomeVariables {
  std::string munia_home;  // MUNIA_HOME
  std::string
      xdg_cache_home;  // XDG_CACHE_HOME (ignored unless absolute, as its specification says)
  std::string home;    // HOME
};
/// MUNIA_HOME, else XDG_CACHE_HOME/munia, else HOME/.cache/munia; empty when none is set.
std::string model_home(const HomeVariables& variables);

struct HubOptions {
  std::string home;                                               // from model_home()
  std::string hf_endpoint = "https://huggingface.co";             // HF_ENDPOINT
  std::string modelscope_endpoint = "https://www.modelscope.cn";  // MODELSCOPE_DOMAIN
  std::string hf_token;     // HF_TOKEN; sent to the host of hf_endpoint and to nobody else
  std::string only_source;  // "hf", "modelscope" or "packages"; empty: all, in order
  /// Interpreters to try for `-m pip`, in order; the first that has pip is used.
  std::vector<std::string> python = {"python3", "/usr/bin/python3"};
  bool offline = false;            // pull and pull_default then fail before any socket or child
  long connect_timeout_ms = 3000;  // to each hub
  long stall_timeout_s = 30;       // a transfer slower than 1 KiB/s for so long has failed
  long retry_wait_ms = 500;        // before a second try; doubled before each further one
};

/// One line of news or a step forward. `bytes_total` is 0 while unknown.
struct PullProgress {
  std::string file;  // what is being fetched: a file's name or a package's
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};

/// All may be empty. They are called from the thread that called pull().
struct PullCallbacks {
  std::function<void(const PullProgress&)> on_progress;
  /// One sentence for stderr: a source that failed and why, a stand-in for the default.
  std::function<void(const std::string&)> on_note;
  /// Asked often; true stops the pull with kCancelled. What was fetched stays for a resume.
  std::function<bool()> cancelled;
};

/// A model that is whole and on this machine.
struct InstalledModel {
  std::string name;  // as it is typed after --model
  std::string path;  // what the loaders take: a directory, or the one weights file in it
  std::uint64_t size_bytes = 0;  // of all its files
  std::string licence;           // empty when not known (local files)
  std::string licence_address;
  bool commercial_use = false;  // false also when the licence is not known
  std::string origin;
  bool origin_verified = false;
  std::string source;    // where this copy came from: "Hugging Face: Qwen/Qwen3-0.6B", …
  bool fetched = false;  // pull: true when this call brought it, false when it was here
};

/// "NAME from SOURCE, licence L (commercial use: yes|no), address": the one line that tells which
/// model really runs; it says so when the origin is not verified.
std::string describe(const InstalledModel& model);

/// Fetches `what`: a catalogue name, "hf:ORG/REPO", "modelscope:ORG/REPO", or an address (http or
/// https) of one .gguf or .munia file; or takes what is on this machine: a bundle (.tar), a .gguf
/// or .munia file, a directory (a path holds a '/' or ends in one of these). Sources are tried in
/// order; each that fails is told by on_note. A model that is already here is returned at once,
/// without network. Errors: kNotFound for a name that nobody knows, kInvalidArgument for a setting
/// of the options that cannot be used, kUnavailable when no source could deliver (all reasons in
/// one message), kLimit when the disk has no room, kCancelled, kIo.
Result<InstalledModel> pull(const std::string& what, const HubOptions& options,
                            const PullCallbacks& callbacks = {});

/// The default model: the one here already if a default was settled before; else kDefaultModel;
/// else, when no hub answers (each is asked once), the next entry marked default_fallback that is
/// here or that its Python packages deliver. A hub answers when it delivers the first file; one
/// that then breaks off is an Error, not a reason to fall back. The caller prints describe() of the
/// result: the one line that says which model really runs.
Result<InstalledModel> pull_default(const HubOptions& options, const PullCallbacks& callbacks = {});

/// The default model that an earlier pull_default settled on, if it is still here; kNotFound
/// otherwise, with the `munia pull` line to type. Never fetches.
Result<InstalledModel> find_default(const HubOptions& options);

/// Copies (by hard link where the file system can) a model directory, a .gguf or a .munia file into
/// the home as `name`. kInvalidArgument when the name is taken or not [A-Za-z0-9._-]+, kNotFound
/// when `path` does not exist.
Result<InstalledModel> pull_local(const std::string& path, const std::string& name,
                                  const HubOptions& options, const PullCallbacks& callbacks = {});

/// Writes the model `name` of the home as one file, `output` (a tar: first its record with licence,
/// origin and hashes, then its files), for a machine without network. Every file is hashed on the
/// way and compared with the record. The file grows as OUTPUT.part, locked, and appears by one
/// rename; `replace` allows it to exist. Returns its size. Errors: kNotFound, kInvalidData when a
/// file of the model is damaged or a bundle cannot hold its name, kInvalidArgument when `output`
/// cannot be used, kUnavailable while another process writes it, kLimit when the disk has no room,
/// kIo, kCancelled.
Result<std::uint64_t> write_bundle(const std::string& name, const std::string& output, bool replace,
                                   const HubOptions& options, const PullCallbacks& callbacks = {});
/// Takes a bundle into the home under the name that it carries, each file checked by the hash in
/// its record. The same model already here is returned at once. kInvalidData for a file that is no
/// bundle or is damaged, kInvalidArgument when another model has the name; opens no socket.
Result<InstalledModel> pull_bundle(const std::string& path, const HubOptions& options,
                                   const PullCallbacks& callbacks = {});

/// The pulls that were begun and not finished: name and bytes that are kept for them.
struct UnfinishedPull {
  std::string name;
  std::uint64_t size_bytes = 0;
};
Result<std::vector<UnfinishedPull>> list_unfinished(const HubOptions& options);

/// What --model accepts, as the path that loaders take: an existing directory, a .gguf or .munia
/// file, or the name of a model in the home. Never fetches: for a known name that is not here the
/// Error (kNotFound) holds the `munia pull NAME` line to type; a path that does not exist says so.
Result<std::string> resolve(const std::string& name_or_path, const HubOptions& options);

/// The models in the home, by name. An absent home holds none.
Result<std::vector<InstalledModel>> list_models(const HubOptions& options);
/// The one of that name (or "hf:ORG/REPO"); kNotFound otherwise.
Result<InstalledModel> find_model(const std::string& name, const HubOptions& options);
/// Removes a model and what an unfinished pull of it left. kNotFound when there is neither,
/// kUnavailable while another process pulls it.
Status remove_model(const std::string& name, const HubOptions& options);

}  // namespace munia::hub
