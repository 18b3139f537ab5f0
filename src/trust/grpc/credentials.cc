#include "trust/grpc/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <filesystem>
#include <functional>
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

// After the handshake, and gRPC's own look at the chain where there is an authority.
class PeerVerifier final : public ExternalCertificateVerifier {
 public:
  PeerVerifier(std::shared_ptr<Identity> identity, Expected expected)
      : identity_(std::move(identity)), expected_(std::move(expected)) {}

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
  [[nodiscard]] Status check(std::string_view pem) const {
    SQUARE_ASSIGN_OR_RETURN(const PeerCertificate peer, read_certificate(pem));
    return identity_->check(peer, expected_.roles, expected_.name);
  }

  const std::shared_ptr<Identity> identity_;
  const Expected expected_;
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

void set_common(TlsCredentialsOptions& options, const std::shared_ptr<Identity>& identity,
                Expected expected) {
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  // Nodes are known by their names in the overlay, not by those of their hosts.
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      ExternalCertificateVerifier::Create<PeerVerifier>(identity, std::move(expected)));
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const std::shared_ptr<Identity>& identity,
                                                              Expected expected) {
  hear_grpc();
  if (!identity) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider_of(*identity));
  set_common(options, identity, std::move(expected));
  options.set_verify_server_certs(identity->name().has_value());
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const std::shared_ptr<Identity>& identity) {
  hear_grpc();
  if (!identity) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(provider_of(*identity));
  set_common(options, identity, {});
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
