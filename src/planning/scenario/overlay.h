// The [overlay] of a scenario.
#pragma once

#include <filesystem>

#include "square/topology.h"
#include "topology/toml_reader.h"

namespace square {

// The topology that [overlay] of `root` describes; its file is looked up in `directory`.
// Errors: INVALID_ARGUMENT with file, line and key; NOT_FOUND for a topology file that is not there.
Result<Topology> read_overlay(const TomlTable& root, const std::filesystem::path& directory);

}  // namespace square
