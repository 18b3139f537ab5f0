#include <doctest/doctest.h>

#include "square/identity.h"

using namespace square;

TEST_CASE("an identity's name is a SPIFFE one, there and back") {
  for (const char* uri : {"spiffe://square.test/node/fra", "spiffe://a/tenant/Alice_2",
                          "spiffe://x-1/server/s.0", "spiffe://square.test/controller/main"}) {
    const auto name = parse_identity_name(uri);
    REQUIRE_MESSAGE(name.is_ok(), uri);
    CHECK(to_string(*name) == uri);
  }
}

TEST_CASE("what is no identity's name is refused") {
  for (const std::string& uri :
       {std::string(), std::string("spiffe://"), std::string("spiffe://d"), std::string("spiffe://d/node"),
        std::string("spiffe://d/node/"), std::string("spiffe:///node/a"), std::string("http://d/node/a"),
        std::string("spiffe://d/root/a"), std::string("spiffe://D/node/a"),
        std::string("spiffe://d/node/a b"), std::string("spiffe://d/node/."),
        std::string("spiffe://d/node/.."), std::string("spiffe://d/node/a/b"),
        std::string("spiffe://d/node/%41"), std::string("spiffe://d/node/\xc3\xbc"),
        std::string("spiffe://d/node/a\0b", 19), "spiffe://d/node/" + std::string(257, 'a'),
        "spiffe://" + std::string(256, 'd') + "/node/a"}) {
    CAPTURE(uri);
    CHECK(parse_identity_name(uri).status().code() == StatusCode::kInvalidArgument);
  }
}
