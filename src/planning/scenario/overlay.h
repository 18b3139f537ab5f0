// The [overlay] of a scenario.
#pragma once

#include <filesystem>

#include "square/topology.h"
#include "topology/toml_reader.h"

namespace square {

// The topology that [overlay] of `root` describes; its file is looked up in `directory` and read with
// `options`, or else with the unit that [overlay] says.
// Errors: INVALID_ARGUMENT with file, line and key; NOT_FOUND for a topology file that is not there.
Result<Topology> read_overlay(const TomlTable& root, const std::filesystem::path& directory,
                              const TopologyReadOptions& options);

}  // namespace square
