// What the tests of this folder share: seeds and optional data.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

// SQUARE_SEED where it is set, else `fallback`; printed, so that a failure can be repeated.
inline std::uint64_t test_seed(std::uint64_t fallback) {
  const char* const text = std::getenv("SQUARE_SEED");
  const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
  std::cout << "SQUARE_SEED=" << seed << "\n";
  return seed;
}

// A file or folder of the optional data, or nothing with a message.
inline std::optional<std::filesystem::path> test_data(const std::string& name) {
  const char* const text = std::getenv("SQUARE_DATA");
  const std::filesystem::path root = std::filesystem::path(__FILE__).parent_path() / "../../..";
  const std::filesystem::path data = text != nullptr ? std::filesystem::path(text) : root / "../shared/data";
  if (std::filesystem::exists(data / name)) return data / name;
  MESSAGE("skipped: no " << name << "; set SQUARE_DATA to the folder that holds it");
  return std::nullopt;
}
