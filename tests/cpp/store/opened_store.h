// A store for a test, and what it holds.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>

#include "store/store.h"

namespace square::test {

using Records = std::map<std::string, std::string>;

inline std::unique_ptr<store::Store> opened_store(const std::string& place) {
  auto opened = store::open_store(place);
  REQUIRE_MESSAGE(opened.is_ok(), opened.status().to_string());
  return std::move(*opened);
}

inline Records records_of(store::Store& store) {
  auto records = store.read();
  REQUIRE_MESSAGE(records.is_ok(), records.status().to_string());
  return *records;
}

}  // namespace square::test
