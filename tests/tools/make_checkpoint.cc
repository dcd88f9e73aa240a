// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains a small model for some steps and saves a checkpoint, once or several times. Uses only the public API.
//
//   make_checkpoint DIRECTORY [OPTIONS]      a number in parentheses is the default of an option
//     --copies N                number of replicas (1); each rank is a thread
//     --shards N                number of flat shards of each replica (1)
//     --steps N                 number of steps before each save (3)
//     --saves N                 number of saves, one after another, into the directory (1)
//     --seed N                  seed of parameters and gradients (1)
//     --set KEY=VALUE           sets a key in the config of the plan, which is also the config of group 0
//     --set1 KEY=VALUE          sets a key in the config of group 1
//     --shape NAME=9x7          sets the shape of a parameter, or adds a parameter; NAME= removes it
//     --load FROM               loads the checkpoint FROM instead of making the steps before the first save
//     --poke KEY=nan,-0         before the last save, writes these numbers to the first elements of the f32 state entry
//                               KEY of rank 0
//     --dump FOLDER             after the last save, writes the result of shampoo_state_read() for every state entry of
//                               every rank to a file FOLDER/<rank>-<index of the entry>; FOLDER/entries.json describes
//                               the files
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {
namespace {

[[noreturn]] void Fail(const std::string& text) {
  std::fprintf(stderr, "make_checkpoint: %s\n", text.c_str());
  std::exit(2);
}

struct Options {
  std::string directory, load, dump, poke;
  int copies = 1, shards = 1, steps = 3, saves = 1;
  uint64_t seed = 1;
  RankSpec spec;
};

std::vector<int64_t> ShapeOf(const std::string& text) {
  std::vector<int64_t> shape;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    shape.push_back(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  return shape;
}

void SetShape(const std::string& name, const std::string& shape, std::vector<ParamSpec>* params) {
  for (auto param = params->begin(); param != params->end(); ++param) {
    if (param->name != name) continue;
    param->shape = ShapeOf(shape);
    if (shape.empty()) params->erase(param);
    return;
  }
  params->push_back({name, ShapeOf(shape)});
}

Options Read(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) Fail("expected a directory, and options with their values");
  Options options;
  options.directory = argv[1];
  RankSpec& spec = options.spec;
  spec.keys = {{"max_preconditioner_dim", "4"}, {"grafting", "adam"}, {"momentum", "0.9"}, {"lr", "0.02"}};
  spec.groups = {{{"lr", "0.1"}, {"grafting", "rmsprop"}, {"max_preconditioner_dim", "3"}}};
  spec.params = {{"encoder/layer.0/weight", {9, 7}},
                 {"bias", {17}, 1},
                 {"größe", {3, 5, 4}},
                 {"wide", {130, 3}},
                 {"scalar", {}, 1}};
  for (int i = 2; i < argc; i += 2) {
    const std::string option = argv[i];
    const std::string value = argv[i + 1];
    const size_t equals = value.find('=');
    const std::string left = value.substr(0, equals);
    const std::string right = equals == std::string::npos ? "" : value.substr(equals + 1);
    if (option == "--copies") {
      options.copies = std::stoi(value);
    } else if (option == "--shards") {
      options.shards = std::stoi(value);
    } else if (option == "--steps") {
      options.steps = std::stoi(value);
    } else if (option == "--saves") {
      options.saves = std::stoi(value);
    } else if (option == "--seed") {
      options.seed = std::stoull(value);
    } else if (option == "--set") {
      spec.keys.emplace_back(left, right);
    } else if (option == "--set1") {
      spec.groups[0].emplace_back(left, right);
    } else if (option == "--shape") {
      SetShape(left, right, &spec.params);
    } else if (option == "--poke") {
      options.poke = value;
    } else if (option == "--load") {
      options.load = value;
    } else if (option == "--dump") {
      options.dump = value;
    } else {
      Fail("unknown option " + option);
    }
  }
  return options;
}

void Require(Grid* grid, const char* what) {
  if (!grid->All(SHAMPOO_OK)) Fail(std::string(what) + " failed:\n" + grid->Errors());
}

// Writes numbers to a state entry of the rank. `poke` is the value of the option --poke, such as KEY=1,nan.
void Poke(const Rank& rank, const std::string& poke) {
  const size_t equals = poke.find('=');
  std::vector<float> numbers;
  for (size_t at = equals + 1; at < poke.size(); at = std::min(poke.find(',', at), poke.size()) + 1) {
    numbers.push_back(std::stof(poke.substr(at)));
  }
  int64_t count = 0;
  shampoo_state_count(rank.optimizer, &count);
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    shampoo_state_describe(rank.optimizer, i, &entry);
    if (entry.dtype != SHAMPOO_F32 || entry.key != poke.substr(0, equals)) continue;
    if (shampoo_state_write(rank.optimizer, i, 0, static_cast<int64_t>(numbers.size()), numbers.data(),
                            numbers.size() * sizeof(float), SHAMPOO_CPU, nullptr) != SHAMPOO_OK) {
      Fail(shampoo_last_error());
    }
    return;
  }
  Fail("there is no f32 entry " + poke.substr(0, equals));
}

void Dump(const Rank& rank, int number, const std::string& folder, nlohmann::json* entries) {
  int64_t count = 0;
  shampoo_state_count(rank.optimizer, &count);
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    shampoo_state_describe(rank.optimizer, i, &entry);
    int64_t elements = 1;
    for (int k = 0; k < entry.ndim; ++k) elements *= entry.shape[k];
    const int64_t size = entry.dtype == SHAMPOO_F64 || entry.dtype == SHAMPOO_I64    ? 8
                         : entry.dtype == SHAMPOO_F16 || entry.dtype == SHAMPOO_BF16 ? 2
                                                                                     : 4;
    std::vector<char> bytes(static_cast<size_t>(elements * size));
    if (shampoo_state_read(rank.optimizer, i, 0, elements, bytes.data(), bytes.size(), SHAMPOO_CPU, nullptr) !=
        SHAMPOO_OK) {
      Fail(std::string(entry.key) + ": " + shampoo_last_error());
    }
    const std::string name = std::to_string(number) + "-" + std::to_string(i);
    std::ofstream(folder + "/" + name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    entries->push_back({{"rank", number},
                        {"key", entry.key},
                        {"dtype", entry.dtype},
                        {"shape", std::vector<int64_t>(entry.shape, entry.shape + entry.ndim)},
                        {"symmetric", entry.symmetric != 0},
                        {"first", entry.flat_offset},
                        {"piece", entry.of_shard == 1},
                        {"bytes", name}});
  }
}

void Run(const Options& options) {
  Grid grid(options.spec, options.copies, options.shards);
  grid.Create();
  Require(&grid, "create");
  grid.FillParams(options.seed);
  uint64_t step = 0;
  for (int save = 0; save < options.saves; ++save) {
    if (save == 0 && !options.load.empty()) {
      grid.Load(options.load);
      Require(&grid, "load");
    } else {
      for (int i = 0; i < options.steps; ++i) {
        grid.FillGradients(1000 * options.seed + step++);
        grid.Step();
        Require(&grid, "step");
      }
    }
    if (save + 1 == options.saves && !options.poke.empty()) Poke(grid[0], options.poke);
    grid.Save(options.directory);
    Require(&grid, "save");
  }
  if (options.dump.empty()) return;
  nlohmann::json entries = nlohmann::json::array();
  for (int rank = 0; rank < grid.world(); ++rank) Dump(grid[rank], rank, options.dump, &entries);
  std::ofstream(options.dump + "/entries.json") << entries.dump();
}

}  // namespace
}  // namespace shampoo_test

int main(int argc, char** argv) {
  shampoo_test::Run(shampoo_test::Read(argc, argv));
  return 0;
}
