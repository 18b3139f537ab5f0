#include "square/grant.h"

#include <fmt/format.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/weight.h"
#include "square/collective_op.h"
#include "square/identity.h"
#include "trust/grant_text.h"
#include "trust/openssl.h"
#include "trust/signature.h"

namespace square {
namespace {

using Json = nlohmann::json;
using namespace trust;

constexpr const char* kGrantLabel = "SQUARE GRANT";
constexpr const char* kSignatureLabel = "SQUARE SIGNATURE";
constexpr int kFormat = 1;

constexpr std::array kOperations{
    CollectiveOp::kBroadcast,     CollectiveOp::kReduce,   CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
    CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll, CollectiveOp::kGather,    CollectiveOp::kScatter};

bool is_operation(std::string_view word) {
  return std::ranges::any_of(kOperations, [&](CollectiveOp op) { return to_string(op) == word; });
}

std::string encode(const Grant& grant) {
  return Json{{"format", kFormat},
              {"domain", grant.domain},
              {"tenant", grant.tenant},
              {"nodes", grant.nodes},
              {"operations", grant.operations},
              {"weight", grant.weight},
              {"groups", grant.groups},
              {"collectives", grant.collectives},
              {"sessions", grant.sessions},
              {"members", grant.members},
              {"expires", grant.expires},
              {"open_operations", grant.open.operations},
              {"open_bytes", grant.open.bytes}}
      .dump();
}

Result<Grant> decode(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  Grant grant;
  try {
    if (!json.is_object() || json.value("format", 0) != kFormat) {
      return invalid_argument("it is no grant of this release");
    }
    json.at("domain").get_to(grant.domain);
    json.at("tenant").get_to(grant.tenant);
    json.at("nodes").get_to(grant.nodes);
    json.at("weight").get_to(grant.weight);
    json.at("groups").get_to(grant.groups);
    json.at("collectives").get_to(grant.collectives);
    json.at("expires").get_to(grant.expires);
    // Grants of earlier releases do not say.
    grant.sessions = json.value("sessions", Quota::kNone);
    grant.members = json.value("members", Quota::kNone);
    grant.open.operations = json.value("open_operations", Quota{}.operations);
    grant.open.bytes = json.value("open_bytes", Quota{}.bytes);
    json.at("operations").get_to(grant.operations);
  } catch (const Json::exception& error) {
    return invalid_argument(fmt::format("it is a damaged grant: {}", error.what()));
  }
  SQUARE_RETURN_IF_ERROR(check_grant(grant));
  return grant;
}

struct FreedByOpenssl {
  void operator()(void* memory) const { OPENSSL_free(memory); }
};

// The next block of the text, which has to have this label.
Result<std::string> read_block(BIO& bio, std::string_view label) {
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;
  if (PEM_read_bio(&bio, &name, &header, &data, &size) != 1) {
    return invalid_argument(fmt::format("it has no {}: {}", label, openssl_error()));
  }
  const std::unique_ptr<char, FreedByOpenssl> name_held(name);
  const std::unique_ptr<char, FreedByOpenssl> header_held(header);
  const std::unique_ptr<unsigned char, FreedByOpenssl> data_held(data);
  if (name != label) return invalid_argument(fmt::format("it has no {} where one has to be", label));
  return std::string(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
}

void write_block(BIO& bio, const char* label, const std::string& data) {
  PEM_write_bio(&bio, label, "", reinterpret_cast<const unsigned char*>(data.data()),
                static_cast<long>(data.size()));
}

// What is signed is not taken for anything else that the key signs.
std::string signed_text(const std::string& encoded) { return std::string(kGrantLabel) + '\0' + encoded; }

}  // namespace

Status check_grant(const Grant& grant) {
  const std::string tenant = grant.tenant == kAnyTenant ? "any" : grant.tenant;
  SQUARE_RETURN_IF_ERROR(check_identity_name({grant.domain, Role::kTenant, tenant}));
  SQUARE_RETURN_IF_ERROR(check_weight(grant.weight).with_context("grant"));
  if (grant.nodes.size() > kMaxGrantNodes) {
    return invalid_argument(
        fmt::format("a grant names {} nodes; at most {} are possible", grant.nodes.size(), kMaxGrantNodes));
  }
  for (const std::string& word : grant.operations) {
    if (!is_operation(word))
      return invalid_argument(fmt::format("a grant names no operation: \"{:.100}\"", word));
  }
  if (grant.groups == 0 || grant.collectives == 0 || grant.sessions == 0 || grant.members == 0) {
    return invalid_argument("a grant of no groups, collectives, sessions or members is none");
  }
  if (grant.open.operations == 0 || grant.open.bytes == 0) {
    return invalid_argument("a grant of no operations under way, or of no bytes, is none");
  }
  return {};
}

Result<Grant> read_grant(std::string_view text, std::string_view authority_pem) {
  if (text.size() > kMaxGrantBytes) return invalid_argument("it is too long for a grant");
  const BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  SQUARE_ASSIGN_OR_RETURN(const std::string encoded, read_block(*bio, kGrantLabel));
  SQUARE_ASSIGN_OR_RETURN(const std::string signature, read_block(*bio, kSignatureLabel));
  const BioPtr authorities(BIO_new_mem_buf(authority_pem.data(), static_cast<int>(authority_pem.size())));
  for (;;) {
    const CertificatePtr authority(PEM_read_bio_X509(authorities.get(), nullptr, nullptr, nullptr));
    if (!authority) break;
    if (is_signed(signed_text(encoded), signature, *X509_get0_pubkey(authority.get())))
      return decode(encoded);
  }
  (void)openssl_error();
  return unauthenticated("no authority that is believed here has signed it");
}

namespace trust {

Result<std::string> sign_grant(const Grant& grant, EVP_PKEY& key) {
  SQUARE_RETURN_IF_ERROR(check_grant(grant));
  const std::string encoded = encode(grant);
  SQUARE_ASSIGN_OR_RETURN(const std::string signature, sign(signed_text(encoded), key));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  write_block(*bio, kGrantLabel, encoded);
  write_block(*bio, kSignatureLabel, signature);
  return text_of(*bio);
}

}  // namespace trust

}  // namespace square
