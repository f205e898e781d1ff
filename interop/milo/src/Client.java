// The Milo client: takes the steps of interop/README.md against any server and prints one JSON line for each.

import static org.eclipse.milo.opcua.stack.core.types.builtin.unsigned.Unsigned.uint;

import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Security;
import java.security.cert.X509Certificate;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import javax.crypto.Cipher;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.eclipse.milo.opcua.sdk.client.OpcUaClient;
import org.eclipse.milo.opcua.sdk.client.OpcUaSession;
import org.eclipse.milo.opcua.sdk.client.SessionActivityListener;
import org.eclipse.milo.opcua.sdk.client.UaSession;
import org.eclipse.milo.opcua.sdk.client.identity.AnonymousProvider;
import org.eclipse.milo.opcua.sdk.client.identity.IdentityProvider;
import org.eclipse.milo.opcua.sdk.client.identity.SignedIdentityToken;
import org.eclipse.milo.opcua.sdk.client.identity.UsernameProvider;
import org.eclipse.milo.opcua.sdk.client.identity.X509IdentityProvider;
import org.eclipse.milo.opcua.sdk.client.subscriptions.MonitoredItemServiceOperationResult;
import org.eclipse.milo.opcua.sdk.client.subscriptions.OpcUaMonitoredItem;
import org.eclipse.milo.opcua.sdk.client.subscriptions.OpcUaSubscription;
import org.eclipse.milo.opcua.stack.core.AttributeId;
import org.eclipse.milo.opcua.stack.core.NodeIds;
import org.eclipse.milo.opcua.stack.core.StatusCodes;
import org.eclipse.milo.opcua.stack.core.UaException;
import org.eclipse.milo.opcua.stack.core.channel.SecureChannel;
import org.eclipse.milo.opcua.stack.core.security.DefaultClientCertificateValidator;
import org.eclipse.milo.opcua.stack.core.security.MemoryCertificateQuarantine;
import org.eclipse.milo.opcua.stack.core.security.SecurityPolicy;
import org.eclipse.milo.opcua.stack.core.types.builtin.ByteString;
import org.eclipse.milo.opcua.stack.core.types.builtin.DataValue;
import org.eclipse.milo.opcua.stack.core.types.builtin.DateTime;
import org.eclipse.milo.opcua.stack.core.types.builtin.ExtensionObject;
import org.eclipse.milo.opcua.stack.core.types.builtin.LocalizedText;
import org.eclipse.milo.opcua.stack.core.types.builtin.NodeId;
import org.eclipse.milo.opcua.stack.core.types.builtin.QualifiedName;
import org.eclipse.milo.opcua.stack.core.types.builtin.StatusCode;
import org.eclipse.milo.opcua.stack.core.types.builtin.Variant;
import org.eclipse.milo.opcua.stack.core.types.builtin.unsigned.UInteger;
import org.eclipse.milo.opcua.stack.core.types.enumerated.BrowseDirection;
import org.eclipse.milo.opcua.stack.core.types.enumerated.FilterOperator;
import org.eclipse.milo.opcua.stack.core.types.enumerated.MonitoringMode;
import org.eclipse.milo.opcua.stack.core.types.enumerated.TimestampsToReturn;
import org.eclipse.milo.opcua.stack.core.types.enumerated.UserTokenType;
import org.eclipse.milo.opcua.stack.core.types.structured.ActivateSessionRequest;
import org.eclipse.milo.opcua.stack.core.types.structured.ActivateSessionResponse;
import org.eclipse.milo.opcua.stack.core.types.structured.BrowseDescription;
import org.eclipse.milo.opcua.stack.core.types.structured.BrowseResult;
import org.eclipse.milo.opcua.stack.core.types.structured.CallMethodRequest;
import org.eclipse.milo.opcua.stack.core.types.structured.CallMethodResult;
import org.eclipse.milo.opcua.stack.core.types.structured.ContentFilter;
import org.eclipse.milo.opcua.stack.core.types.structured.ContentFilterElement;
import org.eclipse.milo.opcua.stack.core.types.structured.EndpointDescription;
import org.eclipse.milo.opcua.stack.core.types.structured.EventFilter;
import org.eclipse.milo.opcua.stack.core.types.structured.HistoryData;
import org.eclipse.milo.opcua.stack.core.types.structured.HistoryReadResult;
import org.eclipse.milo.opcua.stack.core.types.structured.HistoryReadValueId;
import org.eclipse.milo.opcua.stack.core.types.structured.IssuedIdentityToken;
import org.eclipse.milo.opcua.stack.core.types.structured.LiteralOperand;
import org.eclipse.milo.opcua.stack.core.types.structured.ReadRawModifiedDetails;
import org.eclipse.milo.opcua.stack.core.types.structured.ReadValueId;
import org.eclipse.milo.opcua.stack.core.types.structured.ReferenceDescription;
import org.eclipse.milo.opcua.stack.core.types.structured.SignatureData;
import org.eclipse.milo.opcua.stack.core.types.structured.SimpleAttributeOperand;
import org.eclipse.milo.opcua.stack.core.types.structured.UserTokenPolicy;
import org.eclipse.milo.opcua.stack.core.types.structured.ViewDescription;
import org.eclipse.milo.opcua.stack.core.util.CertificateUtil;
import org.eclipse.milo.opcua.stack.core.util.EndpointUtil;
import org.eclipse.milo.opcua.stack.core.util.SignatureUtil;

public final class Client {
  private final Map<String, String> given;
  private OpcUaClient client;
  private int namespace;
  private Changes watched;
  private volatile CountDownLatch lost;
  private OpcUaSubscription earlier;
  private NodeId before;

  private Client(Map<String, String> given) {
    this.given = given;
  }

  public static void main(String[] arguments) {
    // The JDK has no RSASSA-PSS under the name that Milo asks for.
    Security.addProvider(new BouncyCastleProvider());
    Map<String, String> given = Shared.options(arguments, List.of("anonymous", "legacy", "clear"));
    System.exit(new Client(given).run() ? 0 : 1);
  }

  private boolean run() {
    boolean well = true;
    for (String step : given.getOrDefault("steps", "connect,browse,read,write,call,subscribe,reconnect").split(",")) {
      try {
        Shared.report(step, true, take(step), null);
      } catch (Throwable failure) {
        well = Shared.report(step, false, String.valueOf(failure.getMessage()), Shared.statusOf(failure));
        if (step.endsWith("connect") || step.equals("recover")) {
          break;
        }
      }
    }
    if (client != null) {
      try {
        client.disconnect();
      } catch (UaException ignored) {
        // There is nobody left to tell.
      }
    }
    return well;
  }

  private String take(String step) throws Exception {
    return switch (step) {
      case "connect" -> connect();
      case "browse" -> browse();
      case "many" -> many();
      case "past" -> past();
      case "trigger" -> trigger();
      case "read" -> read();
      case "write" -> write();
      case "call" -> call();
      case "subscribe" -> subscribe();
      case "events" -> events();
      case "watch" -> watch();
      case "renew" -> renew();
      case "resume" -> resume();
      case "recover" -> recover();
      case "reconnect" -> {
        client.disconnect();
        connect();
        yield read();
      }
      default -> throw new IllegalArgumentException(step);
    };
  }

  private NodeId node(String name) {
    return new NodeId(namespace, name);
  }

  private String connect() throws Exception {
    String policy = SecurityPolicy.valueOf(given.getOrDefault("policy", "None")).getUri();
    String mode = given.getOrDefault("mode", "None");
    // Where the command line says it is; between the two may be a relay.
    URI at = URI.create(given.get("url"));
    client =
        OpcUaClient.create(
            given.get("url"),
            endpoints ->
                endpoints.stream()
                    .map(e -> EndpointUtil.updateUrl(e, at.getHost(), at.getPort()))
                    .filter(e -> policy.equals(e.getSecurityPolicyUri()) && e.getSecurityMode().name().equals(mode))
                    .findFirst(),
            transport -> transport.setConnectTimeout(uint(30000)),
            config -> {
              try {
                config.setApplicationName(LocalizedText.english("interop"));
                config.setApplicationUri("urn:trapkey:interop:milo");
                config.setRequestTimeout(uint(60000));
                config.setIdentityProvider(identity());
                if (given.containsKey("cert")) {
                  X509Certificate certificate = Shared.certificate(given.get("cert"));
                  config.setCertificate(certificate);
                  config.setCertificateChain(new X509Certificate[] {certificate});
                  config.setKeyPair(Shared.keyPair(certificate, given.get("key")));
                }
                if (given.containsKey("trust")) {
                  config.setCertificateValidator(
                      new DefaultClientCertificateValidator(Shared.trusted(given.get("trust")), new MemoryCertificateQuarantine()));
                }
              } catch (Exception failure) {
                throw new IllegalStateException(failure);
              }
            });
    client.connect();
    String[] uris = client.readNamespaceTable().toArray();
    namespace = Arrays.asList(uris).indexOf(Shared.NAMESPACE);
    if (namespace < 0) {
      throw new IllegalStateException("the server does not have the namespace");
    }
    return "namespace " + namespace;
  }

  private IdentityProvider identity() throws Exception {
    if (given.containsKey("user")) {
      String[] user = given.get("user").split(":", 2);
      return new UsernameProvider(user[0], user[1]);
    }
    if (given.containsKey("x509")) {
      String[] files = given.get("x509").split(",");
      return new X509IdentityProvider(Shared.certificate(files[0]), Shared.key(files[1]));
    }
    if (given.containsKey("jwt")) {
      byte[] token = token(given.get("jwt"));
      return (endpoint, nonce) -> issued(endpoint, nonce, token);
    }
    return AnonymousProvider.INSTANCE;
  }

  private static byte[] token(String path) throws Exception {
    return Files.readString(Path.of(path)).strip().getBytes();
  }

  /** An issued token, clear or in the RSA form: length, token, nonce, in as many blocks as it takes. */
  private SignedIdentityToken issued(EndpointDescription endpoint, ByteString nonce, byte[] token) throws Exception {
    boolean clear = given.containsKey("clear");
    UserTokenPolicy chosen = null;
    for (UserTokenPolicy offered : endpoint.getUserIdentityTokens()) {
      boolean open = SecurityPolicy.None.getUri().equals(offered.getSecurityPolicyUri());
      if (chosen == null && offered.getTokenType() == UserTokenType.IssuedToken && open == clear) {
        chosen = offered;
      }
    }
    if (chosen == null) {
      throw new UaException(StatusCodes.Bad_IdentityTokenInvalid, "no fitting IssuedToken policy is offered");
    }
    SignatureData unsigned = new SignatureData(null, null);
    if (clear) {
      return new SignedIdentityToken(new IssuedIdentityToken(chosen.getPolicyId(), ByteString.of(token), null), unsigned);
    }
    String uri = chosen.getSecurityPolicyUri();
    SecurityPolicy policy = SecurityPolicy.fromUri(uri == null || uri.isEmpty() ? endpoint.getSecurityPolicyUri() : uri);
    var algorithm = policy.getAsymmetricEncryptionAlgorithm();
    X509Certificate server = CertificateUtil.decodeCertificates(endpoint.getServerCertificate().bytesOrEmpty()).get(0);
    byte[] secret = nonce.bytesOrEmpty();
    ByteBuffer plain = ByteBuffer.allocate(4 + token.length + secret.length).order(ByteOrder.LITTLE_ENDIAN);
    plain.putInt(token.length + secret.length).put(token).put(secret);
    int block = SecureChannel.getAsymmetricPlainTextBlockSize(server, algorithm);
    Cipher cipher = Cipher.getInstance(algorithm.getTransformation());
    cipher.init(Cipher.ENCRYPT_MODE, server.getPublicKey());
    var sealed = new java.io.ByteArrayOutputStream();
    for (int at = 0; at < plain.capacity(); at += block) {
      sealed.write(cipher.doFinal(plain.array(), at, Math.min(block, plain.capacity() - at)));
    }
    return new SignedIdentityToken(
        new IssuedIdentityToken(chosen.getPolicyId(), ByteString.of(sealed.toByteArray()), algorithm.getUri()), unsigned);
  }

  private TreeSet<String> children(NodeId of) throws UaException {
    BrowseResult result =
        client.browse(new BrowseDescription(of, BrowseDirection.Forward, NodeIds.HierarchicalReferences, true, uint(0), uint(63)));
    check(result.getStatusCode());
    TreeSet<String> names = new TreeSet<>();
    for (ReferenceDescription reference : result.getReferences()) {
      names.add(reference.getBrowseName().getName());
    }
    return names;
  }

  private String browse() throws Exception {
    TreeSet<String> names = children(node("Line"));
    if (!names.containsAll(List.of("Ticks", "Setpoint", "Add"))) {
      throw new IllegalStateException("browse shows only " + names);
    }
    if (!children(NodeIds.ObjectsFolder).contains("Line")) {
      throw new IllegalStateException("Objects does not show Line");
    }
    return String.join(",", names);
  }

  /** The thousand variables, a hundred at a time. */
  private String many() throws Exception {
    BrowseDescription what =
        new BrowseDescription(node("Line.Many"), BrowseDirection.Forward, NodeIds.HierarchicalReferences, true, uint(0), uint(63));
    ViewDescription whole = new ViewDescription(NodeId.NULL_VALUE, DateTime.MIN_VALUE, uint(0));
    BrowseResult page = client.browse(whole, uint(100), List.of(what)).getResults()[0];
    List<String> names = new ArrayList<>();
    int requests = 1;
    for (; ; requests++) {
      check(page.getStatusCode());
      for (ReferenceDescription reference : page.getReferences()) {
        names.add(reference.getBrowseName().getName());
      }
      if (page.getContinuationPoint() == null || page.getContinuationPoint().bytesOrEmpty().length == 0) {
        break;
      }
      page = client.browseNext(false, List.of(page.getContinuationPoint())).getResults()[0];
    }
    List<String> expected = new ArrayList<>();
    for (int number = 0; number < 1000; number++) {
      expected.add(String.format("Value%04d", number));
    }
    names.sort(null);
    if (!names.equals(expected)) {
      throw new IllegalStateException(names.size() + " names in " + requests + " requests");
    }
    return "1000 in " + requests + " requests";
  }

  private void set(double value) throws UaException {
    check(client.writeValues(List.of(node("Line.Setpoint")), List.of(DataValue.valueOnly(new Variant(value)))).get(0));
  }

  /** What Setpoint was made before, the newest first. */
  private String past() throws Exception {
    List<Object> wanted = List.of(3.25, 2.25, 1.25);
    for (double value : new double[] {1.25, 2.25, 3.25}) {
      set(value);
    }
    DateTime late = new DateTime(Instant.now().plusSeconds(3600));
    DateTime early = new DateTime(Instant.now().minusSeconds(3600));
    ReadRawModifiedDetails details = new ReadRawModifiedDetails(false, late, early, uint(3), false);
    HistoryReadValueId what = new HistoryReadValueId(node("Line.Setpoint"), null, QualifiedName.NULL_VALUE, ByteString.NULL_VALUE);
    List<Object> values = List.of();
    for (int round = 0; round < 300; round++) {
      HistoryReadResult result = client.historyRead(details, TimestampsToReturn.Source, false, List.of(what)).getResults()[0];
      check(result.getStatusCode());
      HistoryData data = (HistoryData) result.getHistoryData().decode(client.getStaticEncodingContext());
      values = Arrays.stream(data.getDataValues()).map(value -> value.getValue().getValue()).toList();
      if (values.equals(wanted)) {
        return String.valueOf(values);
      }
      Thread.sleep(100);
    }
    throw new IllegalStateException("the history says " + values);
  }

  /** Setpoint is only sampled, and reported when Ticks changes. */
  private String trigger() throws Exception {
    BlockingQueue<Object> told = new LinkedBlockingQueue<>();
    OpcUaMonitoredItem setpoint =
        new OpcUaMonitoredItem(
            new ReadValueId(node("Line.Setpoint"), AttributeId.Value.uid(), null, QualifiedName.NULL_VALUE), MonitoringMode.Sampling);
    setpoint.setDataValueListener((from, value) -> told.add(value.getValue().getValue()));
    Changes changes = new Changes();
    if (earlier != null) {
      earlier.delete();
    }
    earlier = changes.subscription;
    add(changes.subscription, setpoint);
    UInteger subscription = changes.subscription.getSubscriptionId().orElseThrow();
    UInteger ticks = changes.item.getMonitoredItemId().orElseThrow();
    check(client.setTriggering(subscription, ticks, List.of(setpoint.getMonitoredItemId().orElseThrow()), List.of()).getAddResults()[0]);
    Object value = told.poll(300, TimeUnit.SECONDS);
    if (value == null) {
      throw new IllegalStateException("nothing was triggered in 300 s");
    }
    return String.valueOf(value);
  }

  private String read() throws Exception {
    DataValue value = client.readValue(0.0, TimestampsToReturn.Both, node("Line.Ticks"));
    check(value.getStatusCode());
    if (value.getSourceTime() == null) {
      throw new IllegalStateException("no source timestamp");
    }
    return String.valueOf(value.getValue().getValue());
  }

  private String write() throws Exception {
    NodeId setpoint = node("Line.Setpoint");
    check(client.writeValues(List.of(setpoint), List.of(DataValue.valueOnly(new Variant(44.5)))).get(0));
    Object back = client.readValue(0.0, TimestampsToReturn.Neither, setpoint).getValue().getValue();
    if (!back.equals(44.5)) {
      throw new IllegalStateException("wrote 44.5, read " + back);
    }
    return "44.5";
  }

  private String call() throws Exception {
    Variant[] inputs = {new Variant(1.5), new Variant(2.25)};
    CallMethodResult result = client.call(List.of(new CallMethodRequest(node("Line"), node("Line.Add"), inputs))).getResults()[0];
    check(result.getStatusCode());
    Object total = result.getOutputArguments()[0].getValue();
    if (!total.equals(3.75)) {
      throw new IllegalStateException("1.5 + 2.25 gave " + total);
    }
    return "3.75";
  }

  /** The changes of Ticks in a subscription of their own. */
  private final class Changes {
    final OpcUaSubscription subscription = new OpcUaSubscription(client, 50.0);
    final OpcUaMonitoredItem item =
        new OpcUaMonitoredItem(new ReadValueId(node("Line.Ticks"), AttributeId.Value.uid(), null, QualifiedName.NULL_VALUE));
    private final BlockingQueue<Long> seen = new LinkedBlockingQueue<>();
    private long last;

    Changes() throws Exception {
      subscription.setSubscriptionListener(
          new OpcUaSubscription.SubscriptionListener() {
            @Override
            public void onTransferFailed(OpcUaSubscription gone, StatusCode status) {
              new Thread(Changes.this::again).start();
            }
          });
      subscription.create();
      item.setSamplingInterval(20.0);
      item.setQueueSize(uint(10));
      item.setDataValueListener((from, value) -> seen.add(((Number) value.getValue().getValue()).longValue()));
      add(subscription, item);
    }

    /** A subscription that could not move to a new session is made again: that is left to whoever uses Milo. */
    private void again() {
      try {
        subscription.reset();
        subscription.create();
        subscription.createMonitoredItems();
      } catch (UaException failure) {
        // Then no changes come, and who waits for them says so.
      }
    }

    /** Waits for so many more; gives back the last value. */
    long more(int wanted) throws InterruptedException {
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(300);
      for (int got = 0; got < wanted; got++) {
        Long next = seen.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        if (next == null) {
          throw new IllegalStateException(got + " of " + wanted + " changes in 300 s");
        }
        last = next;
      }
      return last;
    }
  }

  private static void add(OpcUaSubscription subscription, OpcUaMonitoredItem item) throws UaException {
    subscription.addMonitoredItem(item);
    for (MonitoredItemServiceOperationResult result : new ArrayList<>(subscription.createMonitoredItems())) {
      check(result.serviceResult());
      check(result.operationResult().orElse(StatusCode.GOOD));
    }
  }

  private String subscribe() throws Exception {
    int wanted = Integer.parseInt(given.getOrDefault("changes", "60"));
    Changes changes = new Changes();
    // The next subscription comes before this one goes: with the last one Publish requests end (Bad_NoSubscription). `events`
    // ends this one.
    earlier = changes.subscription;
    changes.more(wanted);
    return wanted + " changes";
  }

  /** Hears of the own write by an audit event. Others may write as well: their events have other values. */
  private String events() throws Exception {
    NodeId update = NodeIds.AuditWriteUpdateEventType;
    SimpleAttributeOperand[] fields =
        Stream.of("EventType", "SourceName", "Message", "Status", "ClientUserId", "NewValue")
            .map(name -> new SimpleAttributeOperand(update, new QualifiedName[] {new QualifiedName(0, name)}, AttributeId.Value.uid(), null))
            .toArray(SimpleAttributeOperand[]::new);
    ExtensionObject type = ExtensionObject.encode(client.getStaticEncodingContext(), new LiteralOperand(new Variant(update)));
    ContentFilterElement ofType = new ContentFilterElement(FilterOperator.OfType, new ExtensionObject[] {type});
    EventFilter filter = new EventFilter(fields, new ContentFilter(new ContentFilterElement[] {ofType}));

    BlockingQueue<Variant[]> heard = new LinkedBlockingQueue<>();
    OpcUaMonitoredItem item = OpcUaMonitoredItem.newEventItem(NodeIds.Server, filter);
    item.setQueueSize(uint(100));
    item.setEventValueListener((from, values) -> heard.add(values));
    OpcUaSubscription subscription = new OpcUaSubscription(client, 50.0);
    subscription.create();
    if (earlier != null) {
      earlier.delete();
    }
    Variant[] event;
    try {
      add(subscription, item);
      check(client.writeValues(List.of(node("Line.Setpoint")), List.of(DataValue.valueOnly(new Variant(44.25)))).get(0));
      do {
        event = heard.poll(30, TimeUnit.SECONDS);
        if (event == null) {
          throw new IllegalStateException("no audit event of the write in 30 s");
        }
      } while (!Double.valueOf(44.25).equals(event[5].getValue()));
    } finally {
      subscription.delete();
    }
    String message = ((LocalizedText) event[2].getValue()).getText();
    Object by = event[4].getValue();
    boolean right = update.equals(event[0].getValue()) && "Attribute/Write".equals(event[1].getValue()) && Boolean.TRUE.equals(event[3].getValue());
    String user = given.containsKey("user") ? given.get("user").split(":", 2)[0] : null;
    if (!right || message == null || message.isEmpty() || (user != null && !user.equals(by))) {
      throw new IllegalStateException("the event says " + Arrays.toString(event));
    }
    return message + " by " + by;
  }

  /** A subscription that `recover` goes on with, after somebody has cut the connection. */
  private String watch() throws Exception {
    lost = new CountDownLatch(1);
    client.addSessionActivityListener(
        new SessionActivityListener() {
          @Override
          public void onSessionInactive(UaSession session) {
            lost.countDown();
          }
        });
    before = client.getSession().getSessionId();
    watched = new Changes();
    watched.more(10);
    return "10 changes";
  }

  /** The changes go on when Ticks began anew. */
  private String resume() throws Exception {
    int wanted = Integer.parseInt(given.getOrDefault("changes", "60"));
    for (long last = watched.last, next = watched.more(1); next >= last; next = watched.more(1)) {
      last = next;
    }
    watched.more(wanted);
    // Milo takes a server for lost that cannot say how it is for a while, even where others wait.
    boolean same = lost.getCount() > 0;
    lost = new CountDownLatch(1);
    return wanted + (same ? " changes" : " changes, connected anew");
  }

  /** The session there is once one was made: the old one may not be known any more. */
  private NodeId session() throws Exception {
    for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(300); ; Thread.sleep(100)) {
      try {
        return client.getSession().getSessionId();
      } catch (UaException failure) {
        if (System.nanoTime() > end) {
          throw failure;
        }
      }
    }
  }

  /** Activates the session there is with another token. */
  private void present(byte[] token) throws Exception {
    OpcUaSession session = client.getSession();
    EndpointDescription endpoint = client.getConfig().getEndpoint();
    SecurityPolicy policy = SecurityPolicy.fromUri(endpoint.getSecurityPolicyUri());
    var algorithm = policy.getAsymmetricSignatureAlgorithm();
    byte[] own =
        SignatureUtil.sign(
            algorithm,
            client.getConfig().getKeyPair().orElseThrow().getPrivate(),
            ByteBuffer.wrap(endpoint.getServerCertificate().bytesOrEmpty()),
            ByteBuffer.wrap(session.getServerNonce().bytesOrEmpty()));
    SignedIdentityToken signed = issued(endpoint, session.getServerNonce(), token);
    var answer =
        (ActivateSessionResponse)
            client.sendRequest(
                new ActivateSessionRequest(
                    client.newRequestHeader(session.getAuthenticationToken()),
                    new SignatureData(algorithm.getUri(), ByteString.of(own)),
                    null,
                    null,
                    ExtensionObject.encode(client.getStaticEncodingContext(), signed.getToken()),
                    signed.getSignature()));
    session.setServerNonce(answer.getServerNonce());
  }

  /**
   * Presents fresh tokens while changes come: each comes. What came may come again: when two messages come close together, this
   * client asks for the first again.
   */
  private String renew() throws Exception {
    double next = 500;
    set(next);
    Changes changes = new Changes();
    BlockingQueue<Object> heard = new LinkedBlockingQueue<>();
    OpcUaMonitoredItem setpoint =
        new OpcUaMonitoredItem(new ReadValueId(node("Line.Setpoint"), AttributeId.Value.uid(), null, QualifiedName.NULL_VALUE));
    setpoint.setSamplingInterval(20.0);
    setpoint.setQueueSize(uint(10));
    setpoint.setDataValueListener((from, value) -> heard.add(value.getValue().getValue()));
    add(changes.subscription, setpoint);
    for (String path : given.get("renew").split(",")) {
      for (int change = 0; change < 5; change++) {
        expect(heard, next);
        set(++next);
      }
      present(token(path));
      expect(heard, next);
      // It is expected again.
      heard.add(next);
      changes.seen.clear();
      changes.more(10);
    }
    earlier = changes.subscription;
    drop(heard, next);
    if (heard.size() != 1) {
      throw new IllegalStateException(heard + " came besides");
    }
    return Math.round(next - 499) + " changes";
  }

  private static void expect(BlockingQueue<Object> heard, double value) throws InterruptedException {
    Object came;
    do {
      came = heard.poll(300, TimeUnit.SECONDS);
    } while (repeated(came, value));
    if (!Double.valueOf(value).equals(came)) {
      throw new IllegalStateException(value + " was written, " + came + " came");
    }
  }

  /** Whether this was heard before: values only grow, and the next is written when the last was heard. */
  private static boolean repeated(Object came, double value) {
    return came instanceof Double before && before >= 500 && before < value;
  }

  /** Takes out what was heard before {@code value}, and {@code value} as often as it came besides. */
  private static void drop(BlockingQueue<Object> heard, double value) {
    heard.removeIf(came -> repeated(came, value));
    while (heard.size() > 1 && heard.remove(value)) {}
  }

  private String recover() throws Exception {
    if (!lost.await(300, TimeUnit.SECONDS)) {
      throw new IllegalStateException("the connection is not lost in 300 s");
    }
    NodeId after = session();
    watched.seen.clear();
    long last = watched.more(Integer.parseInt(given.getOrDefault("changes", "60")));
    long now = Long.parseLong(read());
    if (Math.abs(now - last) > 3000) {
      throw new IllegalStateException("the last change told of " + last + ", Ticks are at " + now);
    }
    return before.equals(after) ? "the same session" : "a new session";
  }

  private static void check(StatusCode status) throws UaException {
    if (status != null && !status.isGood()) {
      throw new UaException(status);
    }
  }
}
