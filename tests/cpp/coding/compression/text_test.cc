// Compressions as texts, and reports.
#include <doctest/doctest.h>

#include <string>

#include "square/compression.h"

using namespace square;

TEST_CASE("a text says what to do, and every compression has one") {
  const auto parsed = [](std::string_view text) {
    const Result<Compression> made = parse_compression(text);
    REQUIRE_MESSAGE(made.is_ok(), std::string(text));
    CHECK(*parse_compression(to_string(*made)) == *made);
    return *made;
  };
  CHECK(parsed("none") == Compression{});
  CHECK(parsed("bf16") == Compression::bfloat16());
  CHECK(parsed("int8") == Compression::int8(256, false));
  CHECK(parsed("int8:128") == Compression::int8(128));
  CHECK(parsed("int8:feedback") == Compression::int8(256, true));
  CHECK(parsed("int8:64:feedback") == Compression::int8(64, true));
  CHECK(parsed("top-k") == Compression::top_k(0.01, true));
  CHECK(parsed("top-k:0.001") == Compression::top_k(0.001));
  CHECK(parsed("top-k:1e-5:no-feedback") == Compression::top_k(1e-5, false));
  CHECK(parsed("top-k:no-feedback") == Compression::top_k(0.01, false));
}

TEST_CASE("what is no compression is refused, and what is, is named") {
  for (const char* text :
       {"", "int", "int8:", "int8:12.5", "int8:128:64", "int8:-1", "int8:128x", "bf16:2", "none:1",
        "top-k:", "top-k:x", "top-k:0.1:0.2", "top-k:0.1:maybe", ":int8", "INT8"}) {
    const Result<Compression> made = parse_compression(text);
    CAPTURE(std::string(text));
    REQUIRE(!made.is_ok());
    CHECK(made.status().code() == StatusCode::kInvalidArgument);
    CHECK(made.status().message().find("top-k:FRACTION") != std::string::npos);
  }
  for (const char* text : {"int8:15", "int8:65537", "int8:0", "top-k:0", "top-k:1.5", "top-k:-1", "top-k:nan",
                           "bf16:feedback", "none:feedback"}) {
    CAPTURE(std::string(text));
    CHECK(parse_compression(text).status().code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("reports add up") {
  CompressionReport total;
  CHECK(total.ratio() == 1.0);
  CHECK(total.relative_error() == 0.0);
  total += {1, 400, 100, 8.0, 1.0};
  total += {1, 400, 100, 8.0, 3.0};
  CHECK(total.calls == 2);
  CHECK(total.ratio() == 4.0);
  CHECK(total.relative_error() == 0.5);
}
