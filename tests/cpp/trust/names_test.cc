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

TEST_CASE("names that SPIFFE has no place for are encoded") {
  for (const auto& [name, uri] :
       {std::pair("New York", "spiffe://d/node/New%20York"),
        std::pair("azure:eastus2", "spiffe://d/node/azure%3Aeastus2"),
        std::pair("Z\xc3\xbcrich", "spiffe://d/node/Z%C3%BCrich"), std::pair("a/b", "spiffe://d/node/a%2Fb"),
        std::pair("..", "spiffe://d/node/%2E%2E"), std::pair("100%", "spiffe://d/node/100%25")}) {
    CHECK(to_string(IdentityName{"d", Role::kNode, name}) == uri);
    CHECK(parse_identity_name(uri).value().name == name);
  }
}

TEST_CASE("what is no identity's name is refused") {
  for (const std::string& uri : {std::string(),
                                 std::string("spiffe://"),
                                 std::string("spiffe://d"),
                                 std::string("spiffe://d/node"),
                                 std::string("spiffe://d/node/"),
                                 std::string("spiffe:///node/a"),
                                 std::string("http://d/node/a"),
                                 std::string("spiffe://d/root/a"),
                                 std::string("spiffe://D/node/a"),
                                 std::string("spiffe://d/node/a b"),
                                 std::string("spiffe://d/node/."),
                                 std::string("spiffe://d/node/.."),
                                 std::string("spiffe://d/node/a/b"),
                                 std::string("spiffe://d/node/%41"),
                                 std::string("spiffe://d/node/%2f"),
                                 std::string("spiffe://d/node/%0A"),
                                 std::string("spiffe://d/node/%"),
                                 std::string("spiffe://d/node/\xc3\xbc"),
                                 std::string("spiffe://d/node/a\0b", 19),
                                 "spiffe://d/node/" + std::string(257, 'a'),
                                 "spiffe://" + std::string(256, 'd') + "/node/a"}) {
    CAPTURE(uri);
    CHECK(parse_identity_name(uri).status().code() == StatusCode::kInvalidArgument);
  }
}
