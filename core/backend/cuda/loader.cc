// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "core/backend/cuda/interface.h"
#include "core/base/text.h"

namespace shampoo::cuda {
namespace {

constexpr const char* kName = "cuda";
// That of this major version, so that several may be installed; then what has one name only, as in a Python wheel.
constexpr const char* kVersionedFile = "libshampoo_cuda.so." SHAMPOO_MAJOR_TEXT;
constexpr const char* kFile = "libshampoo_cuda.so";
// As of CUDA: the plugin calls functions that came with 12.6.
constexpr int32_t kMinDriverVersion = 12060;

struct Plugin {
  std::mutex mutex;
  const Table* table = nullptr;
  std::string path;             // of the table
  std::set<std::string> texts;  // that were handed out
};

// Never destroyed: threads may ask while the process ends.
Plugin& ThePlugin() {
  static auto* const plugin = new Plugin;
  return *plugin;
}

std::string FolderOfThisLibrary() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&FolderOfThisLibrary), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string_view path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string() : std::string(path.substr(0, slash + 1));
}

// "12.6" of 12060
std::string VersionText(int32_t version) { return Cat(version / 1000, ".", version % 1000 / 10); }

Status CheckTable(const Table& table, const std::string& path) {
  if (table.interface_number != kInterface) {
    return Unsupported(path, " has the interface number ", table.interface_number, ", and this library works with ",
                       kInterface, ": install both from one version of libshampoo");
  }
  const struct {
    const char* name;
    int32_t theirs;
    size_t ours;
  } sizes[] = {{"Block", table.block_bytes, sizeof(Block)},
               {"DeviceSettings", table.settings_bytes, sizeof(DeviceSettings)},
               {"StepArgs", table.args_bytes, sizeof(StepArgs)},
               {"StepReport", table.report_bytes, sizeof(StepReport)}};
  for (const auto& size : sizes) {
    if (static_cast<size_t>(size.theirs) == size.ours) continue;
    return Unsupported(path, " has a ", size.name, " of ", size.theirs, " bytes, and this library one of ", size.ours,
                       ": they were built from different sources, or by compilers that do not agree; install both "
                       "from one version of libshampoo");
  }
  return {};
}

// Why dlopen has failed; it begins with the file, as a rule, which the reader knows by then.
std::string_view ReasonOf(const std::string& file) {
  const char* const text = dlerror();
  std::string_view reason = text == nullptr ? "dlopen failed" : text;
  if (reason.starts_with(file) && reason.substr(file.size()).starts_with(": ")) reason.remove_prefix(file.size() + 2);
  return reason;
}

Status UsePlugin(void* library, const std::string& file, Plugin* plugin) {
  auto* const function = reinterpret_cast<PluginFunction>(dlsym(library, kPluginSymbol));
  const Table* const table = function == nullptr ? nullptr : function();
  Status status = table == nullptr ? Unsupported(file, " is no CUDA backend of libshampoo: it has no ", kPluginSymbol)
                                   : CheckTable(*table, file);
  if (!status.ok()) {
    dlclose(library);
    return status;
  }
  if (plugin->table != nullptr && plugin->table != table) {
    return WrongState("the CUDA backend was loaded from ", plugin->path, " already, and a process has one: ", file,
                      " comes too late");
  }
  if (plugin->table == nullptr) plugin->path = file;
  plugin->table = table;  // and stays loaded
  return {};
}

// file: as dlopen takes it.
Status Open(const std::string& file, Plugin* plugin) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return UsePlugin(library, file, plugin);
  return Unsupported("the CUDA backend ", file, " cannot be loaded: ", ReasonOf(file));
}

Status OpenByName(Plugin* plugin) {
  if (plugin->table != nullptr) return {};
  const std::string folder = FolderOfThisLibrary();
  for (const char* const name : {kVersionedFile, kFile}) {
    const std::string beside = folder + name;
    if (!folder.empty() && access(beside.c_str(), F_OK) == 0) return Open(beside, plugin);
  }
  void* const library = dlopen(kVersionedFile, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return UsePlugin(library, kVersionedFile, plugin);
  const std::string_view reason = ReasonOf(kVersionedFile);
  // Of a static program that was found by PATH the loader tells a name alone.
  const std::string where = folder.empty() ? "the folder of this program" : folder;
  // A file that is there, and needs one that is not, is told with the other's name. (In the words of glibc, which a
  // host's locale may translate.)
  if (reason.starts_with("cannot open shared object file")) {
    return Unsupported("the CUDA backend is not installed: ", kVersionedFile, " is neither in ", where,
                       " nor where the system looks for libraries: install it there, or give its path to "
                       "shampoo_backend_load");
  }
  return Unsupported("the CUDA backend ", kVersionedFile, ", which is not in ", where, ", cannot be loaded: ", reason,
                     ": install it there, or give its path to shampoo_backend_load");
}

const char* Keep(Plugin* plugin, std::string text) { return plugin->texts.insert(std::move(text)).first->c_str(); }

std::string UnavailableReason(const Description& found) {
  if (found.driver_version > 0 && found.driver_version < kMinDriverVersion) {
    return Cat("the driver is of CUDA ", VersionText(found.driver_version), ", the CUDA backend was built with ",
               VersionText(found.runtime_version), ", and needs functions of ", VersionText(kMinDriverVersion),
               ": install a driver of CUDA ", VersionText(kMinDriverVersion), " or later");
  }
  if (found.unavailable_reason[0] != '\0') return found.unavailable_reason;
  if (found.driver_version == 0) return "there is no driver of NVIDIA GPUs";
  if (found.device_count < 1) return "there is no NVIDIA GPU, or none that this process may see";
  return {};
}

}  // namespace

Status LoadPlugin(const char* name_or_path) {
  Plugin& plugin = ThePlugin();
  const std::lock_guard<std::mutex> lock(plugin.mutex);
  return std::string_view(name_or_path) == kName ? OpenByName(&plugin) : Open(name_or_path, &plugin);
}

Status FindPlugin(const Table** table) {
  Plugin& plugin = ThePlugin();
  const std::lock_guard<std::mutex> lock(plugin.mutex);
  SHAMPOO_RETURN_IF_ERROR(OpenByName(&plugin));
  *table = plugin.table;
  return {};
}

Devices FindDevices() {
  Plugin& plugin = ThePlugin();
  const std::lock_guard<std::mutex> lock(plugin.mutex);
  const Status loaded = OpenByName(&plugin);
  if (!loaded.ok()) return {Keep(&plugin, loaded.message()), 0};
  Description found{};
  plugin.table->describe(&found);
  const char* const unavailable_reason = Keep(&plugin, UnavailableReason(found));
  return {unavailable_reason, *unavailable_reason == '\0' ? found.device_count : 0};
}

}  // namespace shampoo::cuda
