// What the Milo client and server share: options, files and the JSON lines of interop/README.md.

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.PrivateKey;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.eclipse.milo.opcua.stack.core.UaException;
import org.eclipse.milo.opcua.stack.core.security.MemoryTrustListManager;
import org.eclipse.milo.opcua.stack.core.types.builtin.StatusCode;
import org.eclipse.milo.opcua.stack.core.util.CertificateUtil;

final class Shared {
  static final String NAMESPACE = "urn:trapkey:interop";

  private Shared() {}

  static boolean report(String step, boolean ok, String detail, StatusCode status) {
    String text = detail.replaceAll("[\"\\\\\\p{Cntrl}]", " ");
    String code = status == null ? "" : String.format(", \"status\": \"0x%08X\"", status.getValue());
    System.out.printf("{\"step\": \"%s\", \"ok\": %b, \"detail\": \"%s\"%s}%n", step, ok, text, code);
    System.out.flush();
    return ok;
  }

  /** The status code behind a failure, however deep it is wrapped. */
  static StatusCode statusOf(Throwable failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof UaException exception) {
        return exception.getStatusCode();
      }
    }
    return null;
  }

  /** The options `--name value` and the flags `--name`. */
  static Map<String, String> options(String[] arguments, List<String> flags) {
    Map<String, String> given = new HashMap<>();
    for (int i = 0; i < arguments.length; i++) {
      String name = arguments[i].substring(2);
      given.put(name, flags.contains(name) ? "" : arguments[++i]);
    }
    return given;
  }

  static X509Certificate certificate(String path) throws Exception {
    return CertificateUtil.decodeCertificate(Files.readAllBytes(Path.of(path)));
  }

  static PrivateKey key(String path) throws Exception {
    String pem = Files.readString(Path.of(path));
    byte[] der = Base64.getMimeDecoder().decode(pem.replaceAll("-----[A-Z ]+-----", ""));
    return KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(der));
  }

  static KeyPair keyPair(X509Certificate certificate, String path) throws Exception {
    return new KeyPair(certificate.getPublicKey(), key(path));
  }

  static MemoryTrustListManager trusted(String paths) throws Exception {
    MemoryTrustListManager trust = new MemoryTrustListManager();
    for (String path : paths.split(",")) {
      trust.addTrustedCertificate(certificate(path));
    }
    return trust;
  }
}
