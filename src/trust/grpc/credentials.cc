#include "trust/grpc/credentials.h"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/seldom.h"
#include "trust/grpc/grpc_log.h"

namespace square::trust {
namespace {

using grpc::experimental::CertificateProviderInterface;
using grpc::experimental::ExternalCertificateVerifier;
using grpc::experimental::TlsCredentialsOptions;

std::string_view view(grpc::string_ref text) { return {text.data(), text.size()}; }

// How often each certificate has been shown lately. Thread-safe.
class Handshakes {
 public:
  explicit Handshakes(std::size_t most) : most_(static_cast<double>(most)) {}

  bool admit(const std::string& fingerprint) {
    if (most_ == 0) return true;
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    if (recent_.size() >= kMaxRemembered)
      std::erase_if(recent_, [&](const auto& entry) { return left(entry.second, now) <= 0; });
    if (recent_.size() >= kMaxRemembered) recent_.clear();  // rather than refuse those that are not there
    Recent& recent = recent_.try_emplace(fingerprint, Recent{0, now}).first->second;
    recent = {left(recent, now), now};
    if (recent.count >= most_) return false;
    recent.count += 1;
    return true;
  }

 private:
  static constexpr std::size_t kMaxRemembered = 16'384;
  struct Recent {
    double count = 0;
    std::chrono::steady_clock::time_point when;
  };
  [[nodiscard]] double left(const Recent& recent, std::chrono::steady_clock::time_point now) const {
    const std::chrono::duration<double> passed = now - recent.when;
    return std::max(0.0, recent.count - passed.count() * most_ / 2);
  }

  const double most_;
  std::mutex mutex_;
  std::map<std::string, Recent> recent_;
};

// After the handshake, and gRPC's own look at the chain where there is an authority.
class PeerVerifier final : public ExternalCertificateVerifier {
 public:
  PeerVerifier(std::shared_ptr<Identity> identity, Expected expected, std::size_t most_handshakes)
      : identity_(std::move(identity)), expected_(std::move(expected)), handshakes_(most_handshakes) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* status) override {
    const Status checked = check(view(request->peer_cert()));
    if (!checked.is_ok()) {
      log_seldom(refused_, checked.message(), {.component = "trust"}, "refused a connection: {}",
                 checked.message());
      *status = {static_cast<grpc::StatusCode>(checked.code()), checked.message()};
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  [[nodiscard]] Status check(std::string_view pem) {
    SQUARE_ASSIGN_OR_RETURN(const PeerCertificate peer, read_certificate(pem));
    SQUARE_RETURN_IF_ERROR(identity_->check(peer, expected_.roles, expected_.name));
    if (handshakes_.admit(peer.fingerprint)) return {};
    return resource_exhausted(fmt::format("{} connects too often: it is let in again in a second",
                                          peer.name ? to_string(*peer.name) : peer.fingerprint));
  }

  const std::shared_ptr<Identity> identity_;
  const Expected expected_;
  Handshakes handshakes_;
  Seldom refused_;
};

// Files are watched, by a thread of gRPC's own.
std::shared_ptr<CertificateProviderInterface> provider_of(const Identity& identity) {
  if (!identity.name()) {
    return std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
        identity.certificate_pem(), std::vector<grpc::experimental::IdentityKeyCertPair>{
                                        {identity.key_pem(), identity.certificate_pem()}});
  }
  const std::filesystem::path folder(identity.folder());
  const std::string own = (folder / Identity::kIdentityFile).string();
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      own, own, (folder / Identity::kAuthorityFile).string(),
      static_cast<unsigned>(Identity::kWatchInterval.count()));
}

// gRPC 1.51 has no way to say so.
template <typename Options>
void refuse_old_tls(Options& options) {
  if constexpr (requires { options.set_min_tls_version(grpc_tls_version::TLS1_3); })
    options.set_min_tls_version(grpc_tls_version::TLS1_3);
}

void set_common(TlsCredentialsOptions& options, const std::shared_ptr<Identity>& identity, Expected expected,
                std::size_t most_handshakes) {
  refuse_old_tls(options);
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  // Nodes are known by their names in the overlay, not by those of their hosts.
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      ExternalCertificateVerifier::Create<PeerVerifier>(identity, std::move(expected), most_handshakes));
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const std::shared_ptr<Identity>& identity,
                                                              Expected expected) {
  hear_grpc();
  if (!identity) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider_of(*identity));
  set_common(options, identity, std::move(expected), 0);
  options.set_verify_server_certs(identity->name().has_value());
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const std::shared_ptr<Identity>& identity,
                                                            Callers callers) {
  hear_grpc();
  if (!identity) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(provider_of(*identity));
  set_common(options, identity, {std::move(callers.roles), {}}, callers.most_handshakes);
  options.set_cert_request_type(identity->name()
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::optional<PeerCertificate> certificate_of(const grpc::AuthContext& connection) {
  const auto pem = connection.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pem.empty()) return std::nullopt;
  const auto read = read_certificate(view(pem.front()));
  return read.is_ok() ? std::optional(*read) : std::nullopt;
}

Status check_caller(const std::shared_ptr<Identity>& identity, const grpc::AuthContext& connection,
                    const std::vector<Role>& roles, std::string_view name) {
  if (!identity) return {};
  const auto peer = certificate_of(connection);
  if (!peer) return unauthenticated("the caller has shown no certificate");
  return identity->check(*peer, roles, name);
}

}  // namespace square::trust
