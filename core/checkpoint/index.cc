// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/index.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "core/base/hash.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/stored_text.h"
#include "core/rules/schedule.h"

namespace shampoo {
namespace {

std::string Hex(uint64_t number) {
  std::string text(16, '0');
  for (size_t digit = 16; digit-- > 0; number >>= 4) text[digit] = "0123456789abcdef"[number & 15];
  return text;
}

bool GetHex(const Json& object, const char* name, uint64_t* out) {
  std::string text;
  if (!Get(object, name, &text) || text.size() != 16) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out, 16);
  return error == std::errc() && end == text.data() + text.size();
}

constexpr std::string_view kIndexBeginning = "{\"checksum\":\"";
constexpr int64_t kMaxGroups = int64_t{1} << 30;

Status Malformed(const char* what) { return IoFailed("the index is malformed: ", what, kLoadAnother); }
Status ZeroByte() { return Malformed("a string contains a zero byte (\\u0000); expected none"); }

// Adds members of the arrays of an index, one by one, to a CheckpointIndex.
class IndexParser {
 public:
  IndexParser(const BlockFilter& filter, CheckpointIndex* index) : filter_(filter), index_(index) {}

  Status Add(const std::string& array, const Json& member) {
    if (array == "files") return AddFile(member);
    if (HasZeroByte(member)) return ZeroByte();
    if (array == "groups") return AddGroup(member);
    if (array == "parameters") return AddParam(member);
    if (array == "blocks") return AddBlock(member);
    return {};  // ignore arrays that only later versions of the library know
  }

 private:
  Status AddGroup(const Json& member) { return ParseGroup(member, &index_->groups.emplace_back()); }

  Status AddParam(const Json& member) {
    StoredParam param;
    SHAMPOO_RETURN_IF_ERROR(ParseParam(member, &param));
    if (param.group >= static_cast<int>(index_->groups.size()))
      return Malformed("a parameter names a group that is not listed");
    if (!params_.emplace(param.name, static_cast<int>(index_->params.size())).second) {
      return Malformed("two parameters have the same name");
    }
    index_->params.push_back(std::move(param));
    held_.push_back(0);
    return {};
  }

  Status AddFile(const Json& member) {
    StoredFile file;
    if (!Get(member, "name", &file.name) || !Get(member, "bytes", &file.bytes) || file.bytes < 0 ||
        !GetHex(member, "start_checksum", &file.start_checksum)) {
      return Malformed("a file lacks name, bytes or start_checksum");
    }
    SHAMPOO_RETURN_IF_ERROR(CheckStoredName(file.name).Within("the index is malformed"));
    if (!files_.emplace(file.name, static_cast<int>(index_->files.size())).second) {
      return Malformed("two files have the same name");
    }
    if (__builtin_add_overflow(file_bytes_, file.bytes, &file_bytes_)) return Malformed("files have too many bytes");
    index_->files.push_back(std::move(file));
    return {};
  }

  Status AddBlock(const Json& member) {
    StoredBlock block;
    std::string param;
    std::string file;
    if (!Get(member, "parameter", &param) || !Get(member, "file", &file) || !Get(member, "key", &block.key)) {
      return Malformed("a block lacks parameter, file or key");
    }
    const auto param_found = params_.find(param);
    const auto file_found = files_.find(file);
    if (param_found == params_.end() || file_found == files_.end()) {
      return Malformed("a block names a parameter or a file that is not listed before it");
    }
    block.param = param_found->second;
    block.file = file_found->second;
    SHAMPOO_RETURN_IF_ERROR(ParsePlace(member, index_->params[static_cast<size_t>(block.param)], &block.place));
    int64_t& held = held_[static_cast<size_t>(block.param)];
    if (__builtin_add_overflow(held, block.place.elements(), &held)) return Malformed("blocks have too many elements");
    const Json* const entries = member.Find("entries");
    if (entries == nullptr || !entries->is_object()) return Malformed("a block has no entries");
    for (size_t i = 0; i < entries->names.size(); ++i) {
      const Json& stored = entries->values[i];
      StoredEntry entry{entries->names[i]};
      std::string dtype;
      if (!Get(stored, "dtype", &dtype) || !DtypeFromSafetensors(dtype, &entry.dtype) ||
          !GetHex(stored, "checksum", &entry.checksum)) {
        return Malformed("an entry lacks dtype or checksum");
      }
      block.entries.push_back(std::move(entry));
    }
    if (filter_(*index_, block)) index_->blocks.push_back(std::move(block));
    return {};
  }

  static Status ParsePlace(const Json& member, const StoredParam& param, BlockPlace* place) {
    Shape stride;
    const int64_t elements = param.elements();
    place->piece = Region::Interval(0, elements, elements);
    const Json* const piece = member.Find("piece");
    if (piece != nullptr &&
        (!Get(*piece, "shape", &place->piece.shape) || !Get(*piece, "offset", &place->piece.offset) ||
         !Get(*piece, "extent", &place->piece.extent))) {
      return Malformed("the piece of a block lacks shape, offset or extent");
    }
    if (!Get(member, "shape", &place->shape) || !Get(member, "strides", &stride) ||
        !Get(member, "offset", &place->offset) || stride.ndim != place->shape.ndim) {
      return Malformed("a block lacks shape, strides or offset");
    }
    place->stride = stride.dims;
    const char* const mistake = place->FindMistake(elements);
    if (mistake == nullptr) return {};
    return IoFailed("the index is malformed: the position of a block is invalid: ", mistake, kLoadAnother);
  }

  const BlockFilter& filter_;
  CheckpointIndex* index_;
  std::map<std::string, int> params_;
  std::map<std::string, int> files_;
  // These sums are checked for overflow, so that other code can add the same numbers without checks.
  int64_t file_bytes_ = 0;     // the bytes of all files
  std::vector<int64_t> held_;  // by parameter: number of elements of its blocks
};

Status CheckFormat(const Json& checkpoint, CheckpointIndex* index) {
  if (!Get(checkpoint, "format_version", &index->format) || index->format < 1)
    return Malformed("it has no format_version");
  if (index->format > kCheckpointFormat) {
    return Unsupported("the checkpoint has format ", index->format,
                       ", but this version of the library reads only formats up to ", kCheckpointFormat,
                       ": use the version that wrote the checkpoint, or a later version");
  }
  if (!Get(checkpoint, "library_version", &index->library) || !Get(checkpoint, "world", &index->world)) {
    return Malformed("it has no library_version or world");
  }
  return {};
}

// Computes the checksum of all bytes after the start of the index (IndexStart). Fails if the start does not contain
// this checksum.
Status VerifyChecksum(const File& file, int64_t bytes, uint64_t* checksum) {
  const size_t start_bytes = IndexStart(0).size();
  std::string start(static_cast<size_t>(std::min<int64_t>(bytes, static_cast<int64_t>(start_bytes))), '\0');
  SHAMPOO_RETURN_IF_ERROR(file.ReadAt(0, start.data(), start.size()));
  if (!start.starts_with(kIndexBeginning.substr(0, start.size())) || start.empty()) {
    return IoFailed(
        "it does not begin like the index of a checkpoint: it is another file, or was changed; pass the directory "
        "that the checkpoint was saved into, or a file checkpoint-<number>.json in this directory");
  }
  if (start.size() < start_bytes) return Malformed("it is truncated");
  StreamHash hash;
  std::string buffer(1 << 20, '\0');
  for (int64_t at = static_cast<int64_t>(start_bytes); at < bytes;) {
    const auto part = std::min(bytes - at, static_cast<int64_t>(buffer.size()));
    SHAMPOO_RETURN_IF_ERROR(file.ReadAt(at, buffer.data(), static_cast<size_t>(part)));
    hash.Add(buffer.data(), static_cast<size_t>(part));
    at += part;
  }
  *checksum = hash.value();
  if (start == IndexStart(*checksum)) return {};
  return IoFailed("its checksum does not match: it was changed or truncated", kLoadAnother);
}

}  // namespace

Status ParseGroup(const Json& member, StoredGroup* group) {
  const Json* const config = member.Find("config");
  if (!Get(member, "step", &group->step) || config == nullptr || !config->is_object()) {
    return Malformed("a group has no step or config");
  }
  if (!IsStepCounter(group->step)) return Malformed("the step of a group is out of range");
  for (size_t i = 0; i < config->names.size(); ++i) {
    std::string& value = group->config.emplace_back(config->names[i], "").second;
    if (!Read(config->values[i], &value)) return Malformed("a config value is not a string");
  }
  return {};
}

Status ParseParam(const Json& member, StoredParam* param) {
  std::string dtype;
  int64_t group = 0;
  int64_t elements = 0;
  if (!Get(member, "name", &param->name) || !Get(member, "shape", &param->shape) || !Get(member, "dtype", &dtype) ||
      !DtypeFromSafetensors(dtype, &param->dtype) || !Get(member, "group", &group)) {
    return Malformed("a parameter lacks name, shape, dtype or group");
  }
  const auto dims = param->shape.View();
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; }) ||
      !CheckedProduct(param->shape, &elements)) {
    return Malformed("the shape of a parameter is invalid");
  }
  if (group < 0 || group > kMaxGroups) return Malformed("the group of a parameter is out of range");
  param->group = static_cast<int>(group);
  return {};
}

const std::string* StoredGroup::Value(const std::string& key) const {
  const auto found = std::find_if(config.begin(), config.end(), [&](const auto& pair) { return pair.first == key; });
  return found == config.end() ? nullptr : &found->second;
}

int64_t StoredParam::elements() const {
  int64_t product = 0;
  (void)CheckedProduct(shape, &product);  // cannot fail, because ParseParam() has checked the shape
  return product;
}

const StoredEntry* StoredBlock::Find(std::string_view state) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const StoredEntry& entry) { return entry.state == state; });
  return found == entries.end() ? nullptr : &*found;
}

bool StoredBlock::HasFactors() const {
  // One dim with a factor matrix is enough: SOAP and KL-Shampoo then save E and V in eigenbases.
  return std::any_of(entries.begin(), entries.end(), [](const StoredEntry& entry) {
    return entry.state.starts_with("factor.") || entry.state.starts_with("inverse.") || entry.state == "diagonal";
  });
}

std::string TensorName(const StoredBlock& block, std::string_view state) { return Cat(block.key, "/", state); }

std::string ToJson(const StoredGroup& group) {
  std::string config;
  for (const auto& [key, value] : group.config) {
    config += Cat(config.empty() ? "" : ",", Quoted(key), ":", Quoted(value));
  }
  return Cat("{\"step\":", group.step, ",\"config\":{", config, "}}");
}

std::string ToJson(const StoredParam& param) {
  return Cat("{\"name\":", Quoted(param.name), ",\"shape\":", Listed(param.shape.View()), ",\"dtype\":\"",
             SafetensorsName(param.dtype), "\",\"group\":", param.group, "}");
}

std::string ToJson(const StoredFile& file) {
  return Cat("{\"name\":", Quoted(file.name), ",\"bytes\":", file.bytes, ",\"start_checksum\":\"",
             Hex(file.start_checksum), "\"}");
}

std::string ToJson(const StoredBlock& block, const std::string& param, const std::string& file) {
  const BlockPlace& place = block.place;
  std::string text = Cat("{\"parameter\":", Quoted(param), ",\"key\":", Quoted(block.key), ",\"file\":", Quoted(file),
                         ",\"shape\":", Listed(place.shape.View()), ",\"offset\":", place.offset,
                         ",\"strides\":", Listed(std::span(place.stride).first(static_cast<size_t>(place.shape.ndim))));
  if (!place.is_whole()) {
    text +=
        Cat(",\"piece\":{\"shape\":", Listed(place.piece.shape.View()),
            ",\"offset\":", Listed(place.piece.offset.View()), ",\"extent\":", Listed(place.piece.extent.View()), "}");
  }
  std::string entries;
  for (const StoredEntry& entry : block.entries) {
    entries += Cat(entries.empty() ? "" : ",", Quoted(entry.state), ":{\"dtype\":\"", SafetensorsName(entry.dtype),
                   "\",\"checksum\":\"", Hex(entry.checksum), "\"}");
  }
  return Cat(text, ",\"entries\":{", entries, "}}");
}

std::string IndexStart(uint64_t checksum) { return Cat(kIndexBeginning, Hex(checksum), "\",\n\"checkpoint\":"); }

Status ParseIndex(IndexText* text, const BlockFilter& filter, CheckpointIndex* index) {
  IndexParser parser(filter, index);
  Status status;
  // Consume each member as soon as it is parsed. A JSON tree of all members would need many times as much memory as the
  // index.
  const auto consume = [&](std::span<const std::string> where, const Json& member) {
    if (where.size() != 3 || where[0] != "checkpoint") return false;
    if (status.ok()) status = parser.Add(where[1], member);
    return true;
  };
  Json root;
  const bool is_json = ParseJson(text, consume, &root);
  SHAMPOO_RETURN_IF_ERROR(text->status().Copy());
  const Json* const checkpoint = root.Find("checkpoint");
  if (!is_json || checkpoint == nullptr) return Malformed("it is not a JSON object with a member checkpoint");
  if (HasZeroByte(root)) return ZeroByte();
  SHAMPOO_RETURN_IF_ERROR(CheckFormat(*checkpoint, index));
  return status;
}

Status ReadIndex(const std::string& path, const BlockFilter& filter, CheckpointIndex* index) {
  *index = CheckpointIndex{};
  index->path = path;
  const size_t slash = path.rfind('/');
  index->directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  File file;
  SHAMPOO_RETURN_IF_ERROR(File::Open(path, &file));
  int64_t bytes = 0;
  SHAMPOO_RETURN_IF_ERROR(file.Size(&bytes));
  SHAMPOO_RETURN_IF_ERROR(VerifyChecksum(file, bytes, &index->checksum).Within(path));
  IndexText text(file, bytes);
  return ParseIndex(&text, filter, index).Within(path);
}

}  // namespace shampoo
