// A store for a test, what it holds, and what holds for every store that outlives its process.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "store/holding_process.h"
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

// Returns its identity.
inline store::StoreId check_that_it_keeps_all(const std::string& place) {
  store::StoreId id = 0;
  const Records kept = {{"a", "2"}, {"b", std::string("\0\xff", 2)}};
  {
    const auto store = opened_store(place);
    id = store->id();
    CHECK(store->term() == 1);
    CHECK(records_of(*store).empty());
    REQUIRE(store->write({{"a", "1"}, {"b", kept.at("b")}, {"c", ""}}).is_ok());
    REQUIRE(store->write({{"a", "2"}, {"c", std::nullopt}}).is_ok());
    CHECK(records_of(*store) == kept);
  }
  const auto again = opened_store(place);
  CHECK(again->id() == id);
  CHECK(again->term() == 2);
  CHECK(records_of(*again) == kept);
  return id;
}

// `name` is how its errors call it.
inline void check_that_one_has_it(const std::string& place, const std::string& name) {
  HoldingProcess holder(place);
  const auto refused = store::open_store(place);
  REQUIRE(refused.status().code() == StatusCode::kAlreadyExists);
  CHECK(refused.status().message().find("another controller, process ") != std::string::npos);
  CHECK(refused.status().message().find(name) != std::string::npos);
  holder.end();
  CHECK(opened_store(place)->term() == 2);
}

}  // namespace square::test
