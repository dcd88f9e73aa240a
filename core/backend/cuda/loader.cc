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
// The library searches its own folder for kVersionedFile and then for kFile, and finally the system's library path for
// kVersionedFile. The number in kVersionedFile allows several versions to be installed. Python wheels contain the
// plugin as kFile.
constexpr const char* kVersionedFile = "libshampoo_cuda.so." SHAMPOO_MAJOR_TEXT;
constexpr const char* kFile = "libshampoo_cuda.so";
// The plugin calls functions that were added in CUDA 12.6. CUDA writes a version as 1000 * major + 10 * minor.
constexpr int32_t kMinDriverVersion = 12060;

struct Plugin {
  std::mutex mutex;
  const Table* table = nullptr;
  std::string path;             // the file of the plugin that `table` belongs to
  std::set<std::string> texts;  // strings that were returned to callers; they are never freed
};

// The object is never destroyed, because threads may use it while the process exits.
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

// Returns "12.6" for 12060.
std::string VersionText(int32_t version) { return Cat(version / 1000, ".", version % 1000 / 10); }

Status CheckTable(const Table& table, const std::string& path) {
  if (table.interface_number != kInterface) {
    return Unsupported(path, " has the interface number ", table.interface_number, ": expected ", kInterface,
                       "; install libshampoo and its CUDA backend from the same version");
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
    return Unsupported(path, " has a type ", size.name, " of ", size.theirs, " bytes: expected ", size.ours,
                       "; libshampoo and its CUDA backend were built from different sources or by incompatible "
                       "compilers; install both from the same version");
  }
  return {};
}

// Returns the reason why dlopen failed. The message of the dynamic loader usually begins with the name of the file.
// This function removes the name, because its callers also write the name into their messages.
std::string_view ReasonOf(const std::string& file) {
  const char* const text = dlerror();
  std::string_view reason = text == nullptr ? "dlopen failed" : text;
  if (reason.starts_with(file) && reason.substr(file.size()).starts_with(": ")) reason.remove_prefix(file.size() + 2);
  return reason;
}

Status UsePlugin(void* library, const std::string& file, Plugin* plugin) {
  auto* const function = reinterpret_cast<PluginFunction>(dlsym(library, kPluginSymbol));
  const Table* const table = function == nullptr ? nullptr : function();
  Status status = table == nullptr ? Unsupported(file, " is not a CUDA backend of libshampoo: it does not export ",
                                                 kPluginSymbol, "; expected ", kVersionedFile, " of this version")
                                   : CheckTable(*table, file);
  if (!status.ok()) {
    dlclose(library);
    return status;
  }
  if (plugin->table == table) {
    dlclose(library);  // the first dlopen of this library keeps it loaded
    return {};
  }
  if (plugin->table != nullptr) {
    dlclose(library);
    return WrongState("the CUDA backend cannot be loaded from ", file, ": it is already loaded from ", plugin->path,
                      ", and a process can load only one");
  }
  plugin->path = file;
  plugin->table = table;  // the plugin is never unloaded
  return {};
}

// file: a path or a file name, as for dlopen.
Status Open(const std::string& file, Plugin* plugin) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return UsePlugin(library, file, plugin);
  return Unsupported("the CUDA backend ", file, " cannot be loaded: ", ReasonOf(file),
                     "; check that the loader can find this file and the libraries that it needs (cuBLAS, cuSOLVER), "
                     "for example with LD_LIBRARY_PATH");
}

Status OpenByName(Plugin* plugin) {
  if (plugin->table != nullptr) return {};
  const std::string folder = FolderOfThisLibrary();
  for (const char* const name : {kVersionedFile, kFile}) {
    const std::string path = folder + name;
    if (!folder.empty() && access(path.c_str(), F_OK) == 0) return Open(path, plugin);
  }
  void* const library = dlopen(kVersionedFile, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return UsePlugin(library, kVersionedFile, plugin);
  const std::string_view reason = ReasonOf(kVersionedFile);
  // If glibc does not find the file, `reason` begins with the words below. If a library that the file needs is missing,
  // `reason` begins with the name of that library. If a locale translates `reason`, the last return statement of
  // this function applies.
  if (reason.starts_with("cannot open shared object file: No such file")) {
    // The folder is not known if the library is linked statically into a program that was started through PATH.
    const std::string searched =
        folder.empty()
            ? "in the system's library path (the folder of this program is searched, too, if the command that starts "
              "the program contains a \"/\")"
            : Cat("in ", folder, " or in the system's library path");
    return Unsupported("the CUDA backend is not installed: ", kVersionedFile, " was not found ", searched,
                       "; install it there, or pass its path to shampoo_backend_load");
  }
  return Unsupported(
      "the system cannot load the CUDA backend ", kVersionedFile, ": ", reason,
      "; check that the loader can find the backend and the libraries that it needs (cuBLAS, cuSOLVER), for "
      "example with LD_LIBRARY_PATH, or pass the path of the backend to shampoo_backend_load");
}

const char* Keep(Plugin* plugin, std::string text) { return plugin->texts.insert(std::move(text)).first->c_str(); }

std::string UnavailableReason(const Description& found) {
  if (found.driver_version > 0 && found.driver_version < kMinDriverVersion) {
    return Cat("the NVIDIA driver supports CUDA ", VersionText(found.driver_version), ": expected ",
               VersionText(kMinDriverVersion), " or later (the CUDA backend was built with CUDA ",
               VersionText(found.runtime_version), "); install a newer driver");
  }
  if (found.unavailable_reason[0] != '\0') return found.unavailable_reason;
  if (found.driver_version == 0) return "there is no NVIDIA driver; install one";
  if (found.device_count < 1) {
    return "there is no NVIDIA GPU, or none is visible to this process; check CUDA_VISIBLE_DEVICES and nvidia-smi";
  }
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
