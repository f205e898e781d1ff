// The Milo server: the fixture of interop/README.md, to be read by our client and by the other stacks.

import java.security.KeyPair;
import java.security.Security;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.bouncycastle.asn1.x500.X500Name;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.eclipse.milo.opcua.sdk.core.AccessLevel;
import org.eclipse.milo.opcua.sdk.core.Reference;
import org.eclipse.milo.opcua.sdk.core.ValueRanks;
import org.eclipse.milo.opcua.sdk.server.EndpointConfig;
import org.eclipse.milo.opcua.sdk.server.ManagedNamespaceWithLifecycle;
import org.eclipse.milo.opcua.sdk.server.OpcUaServer;
import org.eclipse.milo.opcua.sdk.server.OpcUaServerConfig;
import org.eclipse.milo.opcua.sdk.server.OpcUaServerConfigLimits;
import org.eclipse.milo.opcua.sdk.server.identity.AnonymousIdentityValidator;
import org.eclipse.milo.opcua.sdk.server.identity.CompositeValidator;
import org.eclipse.milo.opcua.sdk.server.identity.UsernameIdentityValidator;
import org.eclipse.milo.opcua.sdk.server.identity.X509IdentityValidator;
import org.eclipse.milo.opcua.sdk.server.items.DataItem;
import org.eclipse.milo.opcua.sdk.server.items.MonitoredItem;
import org.eclipse.milo.opcua.sdk.server.methods.AbstractMethodInvocationHandler;
import org.eclipse.milo.opcua.sdk.server.nodes.UaFolderNode;
import org.eclipse.milo.opcua.sdk.server.nodes.UaMethodNode;
import org.eclipse.milo.opcua.sdk.server.nodes.UaObjectNode;
import org.eclipse.milo.opcua.sdk.server.nodes.UaVariableNode;
import org.eclipse.milo.opcua.sdk.server.util.SubscriptionModel;
import org.eclipse.milo.opcua.stack.core.AttributeId;
import org.eclipse.milo.opcua.stack.core.NodeIds;
import org.eclipse.milo.opcua.stack.core.StatusCodes;
import org.eclipse.milo.opcua.stack.core.security.CertificateFactory;
import org.eclipse.milo.opcua.stack.core.security.DefaultApplicationGroup;
import org.eclipse.milo.opcua.stack.core.security.DefaultCertificateManager;
import org.eclipse.milo.opcua.stack.core.security.DefaultServerCertificateValidator;
import org.eclipse.milo.opcua.stack.core.security.MemoryCertificateQuarantine;
import org.eclipse.milo.opcua.stack.core.security.MemoryCertificateStore;
import org.eclipse.milo.opcua.stack.core.security.SecurityPolicy;
import org.eclipse.milo.opcua.stack.core.security.TrustListManager;
import org.eclipse.milo.opcua.stack.core.transport.TransportProfile;
import org.eclipse.milo.opcua.stack.core.types.builtin.ByteString;
import org.eclipse.milo.opcua.stack.core.types.builtin.DataValue;
import org.eclipse.milo.opcua.stack.core.types.builtin.ExtensionObject;
import org.eclipse.milo.opcua.stack.core.types.builtin.LocalizedText;
import org.eclipse.milo.opcua.stack.core.types.builtin.NodeId;
import org.eclipse.milo.opcua.stack.core.types.builtin.StatusCode;
import org.eclipse.milo.opcua.stack.core.types.builtin.Variant;
import org.eclipse.milo.opcua.stack.core.types.builtin.unsigned.UInteger;
import org.eclipse.milo.opcua.stack.core.types.enumerated.MessageSecurityMode;
import org.eclipse.milo.opcua.stack.core.types.enumerated.TimestampsToReturn;
import org.eclipse.milo.opcua.stack.core.types.enumerated.UserTokenType;
import org.eclipse.milo.opcua.stack.core.types.structured.Argument;
import org.eclipse.milo.opcua.stack.core.types.structured.HistoryData;
import org.eclipse.milo.opcua.stack.core.types.structured.HistoryReadDetails;
import org.eclipse.milo.opcua.stack.core.types.structured.HistoryReadResult;
import org.eclipse.milo.opcua.stack.core.types.structured.HistoryReadValueId;
import org.eclipse.milo.opcua.stack.core.types.structured.ReadRawModifiedDetails;
import org.eclipse.milo.opcua.stack.core.types.structured.UserTokenPolicy;
import org.eclipse.milo.opcua.stack.transport.server.tcp.OpcTcpServerTransport;
import org.eclipse.milo.opcua.stack.transport.server.tcp.OpcTcpServerTransportConfig;

public final class Server {
  private Server() {}

  public static void main(String[] arguments) throws Exception {
    // The JDK has no RSASSA-PSS under the name that Milo asks for.
    Security.addProvider(new BouncyCastleProvider());
    Map<String, String> given = Shared.options(arguments, List.of("history", "many"));
    OpcUaServer server = new OpcUaServer(config(given), profile -> new OpcTcpServerTransport(OpcTcpServerTransportConfig.newBuilder().build()));
    new Fixture(server, given).startup();
    server.startup().get();
    Shared.report("listening", true, "", null);
    while (System.in.read() >= 0) {
      // Nothing is expected there; its end is the order to stop.
    }
    System.exit(0);
  }

  private static OpcUaServerConfig config(Map<String, String> given) throws Exception {
    X509Certificate certificate = Shared.certificate(given.get("cert"));
    KeyPair keys = Shared.keyPair(certificate, given.get("key"));
    TrustListManager trust = Shared.trusted(given.get("trust"));
    MemoryCertificateQuarantine quarantine = new MemoryCertificateQuarantine();
    DefaultApplicationGroup group =
        DefaultApplicationGroup.createAndInitialize(
            trust, new MemoryCertificateStore(), new Given(keys, certificate), new DefaultServerCertificateValidator(trust, quarantine));
    String[] user = given.get("user").split(":", 2);
    String name = certificate.getSubjectX500Principal().getName().replaceAll(".*CN=([^,]+).*", "$1");
    return OpcUaServerConfig.builder()
        .setApplicationName(LocalizedText.english("interop"))
        .setApplicationUri("urn:trapkey:interop:" + name)
        .setProductUri(Shared.NAMESPACE)
        .setEndpoints(endpoints(Integer.parseInt(given.get("port")), certificate))
        .setCertificateManager(new DefaultCertificateManager(quarantine, group))
        .setLimits(new Limits(UInteger.valueOf(given.getOrDefault("sessions", "100"))))
        .setIdentityValidator(
            new CompositeValidator(
                AnonymousIdentityValidator.INSTANCE,
                new UsernameIdentityValidator(asked -> asked.getUsername().equals(user[0]) && asked.getPassword().equals(user[1])),
                new X509IdentityValidator(trust.getTrustedCertificates()::contains)))
        .build();
  }

  private static Set<EndpointConfig> endpoints(int port, X509Certificate certificate) {
    String secure = SecurityPolicy.Basic256Sha256.getUri();
    UserTokenPolicy anonymous = new UserTokenPolicy("anonymous", UserTokenType.Anonymous, null, null, null);
    UserTokenPolicy userName = new UserTokenPolicy("user", UserTokenType.UserName, null, null, secure);
    UserTokenPolicy x509 = new UserTokenPolicy("x509", UserTokenType.Certificate, null, null, secure);
    EndpointConfig.Builder base =
        EndpointConfig.newBuilder()
            .setTransportProfile(TransportProfile.TCP_UASC_UABINARY)
            .setBindAddress("127.0.0.1")
            .setBindPort(port)
            .setHostname("127.0.0.1")
            .setCertificate(certificate)
            .addTokenPolicies(anonymous, userName, x509);
    Set<EndpointConfig> endpoints = new HashSet<>();
    endpoints.add(base.copy().setSecurityPolicy(SecurityPolicy.None).setSecurityMode(MessageSecurityMode.None).build());
    for (SecurityPolicy policy : List.of(SecurityPolicy.Basic256Sha256, SecurityPolicy.Aes128_Sha256_RsaOaep, SecurityPolicy.Aes256_Sha256_RsaPss)) {
      for (MessageSecurityMode mode : List.of(MessageSecurityMode.Sign, MessageSecurityMode.SignAndEncrypt)) {
        endpoints.add(base.copy().setSecurityPolicy(policy).setSecurityMode(mode).build());
      }
    }
    return endpoints;
  }

  /** How many sessions there may be at once. */
  private record Limits(UInteger sessions) implements OpcUaServerConfigLimits {
    @Override
    public UInteger getMaxSessions() {
      return sessions;
    }
  }

  /** Hands out the certificate that the command line named; makes none. */
  private record Given(KeyPair keys, X509Certificate certificate) implements CertificateFactory {
    @Override
    public KeyPair createKeyPair(NodeId type) {
      return keys;
    }

    @Override
    public X509Certificate[] createCertificateChain(NodeId type, KeyPair pair) {
      return new X509Certificate[] {certificate};
    }

    @Override
    public ByteString createSigningRequest(
        NodeId type, KeyPair pair, X500Name subject, String uri, List<String> names, List<String> addresses) {
      throw new UnsupportedOperationException();
    }
  }

  private static final class Fixture extends ManagedNamespaceWithLifecycle {
    private final SubscriptionModel subscriptions;
    private final boolean history;
    private final boolean many;
    private final long from;
    private final List<DataValue> past = new CopyOnWriteArrayList<>();

    Fixture(OpcUaServer server, Map<String, String> given) {
      super(server, Shared.NAMESPACE);
      history = given.containsKey("history");
      many = given.containsKey("many");
      from = Long.parseLong(given.getOrDefault("ticks", "0"));
      subscriptions = new SubscriptionModel(server, this);
      getLifecycleManager().addLifecycle(subscriptions);
      getLifecycleManager().addStartupTask(this::populate);
    }

    private void populate() {
      UaObjectNode line =
          UaObjectNode.build(
              getNodeContext(),
              builder ->
                  builder
                      .setNodeId(newNodeId("Line"))
                      .setBrowseName(newQualifiedName("Line"))
                      .setDisplayName(LocalizedText.english("Line"))
                      .setTypeDefinition(NodeIds.BaseObjectType)
                      .buildAndAdd());
      line.addReference(new Reference(line.getNodeId(), NodeIds.Organizes, NodeIds.ObjectsFolder.expanded(), false));

      UaVariableNode ticks = variable(line, "Ticks", NodeIds.UInt32, new Variant(UInteger.valueOf(0)), AccessLevel.READ_ONLY);
      Set<AccessLevel> access = EnumSet.copyOf(AccessLevel.READ_WRITE);
      if (history) {
        access.add(AccessLevel.HistoryRead);
      }
      UaVariableNode setpoint = variable(line, "Setpoint", NodeIds.Double, new Variant(20.0), access);
      if (history) {
        setpoint.addAttributeObserver(
            (node, attribute, value) -> {
              if (attribute == AttributeId.Value) {
                past.add((DataValue) value);
              }
            });
      }
      method(line);
      if (many) {
        populateMany(line);
      }

      AtomicLong count = new AtomicLong(from);
      Executors.newSingleThreadScheduledExecutor()
          .scheduleAtFixedRate(
              () -> ticks.setValue(new DataValue(new Variant(UInteger.valueOf(count.incrementAndGet())))), 20, 20, TimeUnit.MILLISECONDS);
    }

    private UaVariableNode variable(UaObjectNode parent, String name, NodeId type, Variant value, Set<AccessLevel> access) {
      UaVariableNode node =
          UaVariableNode.build(
              getNodeContext(),
              builder ->
                  builder
                      .setNodeId(newNodeId("Line." + name))
                      .setBrowseName(newQualifiedName(name))
                      .setDisplayName(LocalizedText.english(name))
                      .setDataType(type)
                      .setTypeDefinition(NodeIds.BaseDataVariableType)
                      .setAccessLevel(access)
                      .setUserAccessLevel(access)
                      .setMinimumSamplingInterval(10.0)
                      .setValue(new DataValue(value))
                      .buildAndAdd());
      parent.addComponent(node);
      return node;
    }

    /** A folder of a thousand variables, for clients that browse page by page. */
    private void populateMany(UaObjectNode parent) {
      UaFolderNode folder =
          new UaFolderNode(getNodeContext(), newNodeId("Line.Many"), newQualifiedName("Many"), LocalizedText.english("Many"));
      getNodeManager().addNode(folder);
      parent.addComponent(folder);
      for (int number = 0; number < 1000; number++) {
        String name = String.format("Value%04d", number);
        Variant value = new Variant(UInteger.valueOf(number));
        UaVariableNode node =
            UaVariableNode.build(
                getNodeContext(),
                builder ->
                    builder
                        .setNodeId(newNodeId(UInteger.valueOf(10_000 + Integer.parseInt(name.substring(5)))))
                        .setBrowseName(newQualifiedName(name))
                        .setDisplayName(LocalizedText.english(name))
                        .setDataType(NodeIds.UInt32)
                        .setTypeDefinition(NodeIds.BaseDataVariableType)
                        .setValue(new DataValue(value))
                        .buildAndAdd());
        folder.addOrganizes(node);
      }
    }

    /** Milo keeps no history; this answers for raw values of Setpoint with what was written. */
    @Override
    public List<HistoryReadResult> historyRead(
        HistoryReadContext context, HistoryReadDetails details, TimestampsToReturn timestamps, List<HistoryReadValueId> asked) {
      return asked.stream().map(one -> historyOf(one.getNodeId(), details)).toList();
    }

    private HistoryReadResult historyOf(NodeId node, HistoryReadDetails details) {
      if (!history || !node.equals(newNodeId("Line.Setpoint")) || !(details instanceof ReadRawModifiedDetails raw) || raw.getIsReadModified()) {
        return new HistoryReadResult(new StatusCode(StatusCodes.Bad_HistoryOperationUnsupported), null, null);
      }
      boolean backward = raw.getStartTime().getUtcTime() > raw.getEndTime().getUtcTime();
      long from = Math.min(raw.getStartTime().getUtcTime(), raw.getEndTime().getUtcTime());
      long to = Math.max(raw.getStartTime().getUtcTime(), raw.getEndTime().getUtcTime());
      List<DataValue> values = new ArrayList<>(past);
      values.removeIf(value -> value.getSourceTime().getUtcTime() < from || value.getSourceTime().getUtcTime() > to);
      if (backward) {
        Collections.reverse(values);
      }
      int most = raw.getNumValuesPerNode().intValue();
      DataValue[] found = (most == 0 ? values.stream() : values.stream().limit(most)).toArray(DataValue[]::new);
      ExtensionObject encoded = ExtensionObject.encode(getServer().getStaticEncodingContext(), new HistoryData(found));
      return new HistoryReadResult(StatusCode.GOOD, null, encoded);
    }

    private void method(UaObjectNode parent) {
      UaMethodNode method =
          UaMethodNode.builder(getNodeContext())
              .setNodeId(newNodeId("Line.Add"))
              .setBrowseName(newQualifiedName("Add"))
              .setDisplayName(LocalizedText.english("Add"))
              .build();
      Add add = new Add(method);
      method.setInputArguments(add.getInputArguments());
      method.setOutputArguments(add.getOutputArguments());
      method.setInvocationHandler(add);
      getNodeManager().addNode(method);
      parent.addComponent(method);
    }

    @Override
    public void onDataItemsCreated(List<DataItem> items) {
      subscriptions.onDataItemsCreated(items);
    }

    @Override
    public void onDataItemsModified(List<DataItem> items) {
      subscriptions.onDataItemsModified(items);
    }

    @Override
    public void onDataItemsDeleted(List<DataItem> items) {
      subscriptions.onDataItemsDeleted(items);
    }

    @Override
    public void onMonitoringModeChanged(List<MonitoredItem> items) {
      subscriptions.onMonitoringModeChanged(items);
    }
  }

  private static final class Add extends AbstractMethodInvocationHandler {
    Add(UaMethodNode node) {
      super(node);
    }

    private static Argument number(String name) {
      return new Argument(name, NodeIds.Double, ValueRanks.Scalar, null, LocalizedText.english(name));
    }

    @Override
    public Argument[] getInputArguments() {
      return new Argument[] {number("left"), number("right")};
    }

    @Override
    public Argument[] getOutputArguments() {
      return new Argument[] {number("sum")};
    }

    @Override
    protected Variant[] invoke(InvocationContext context, Variant[] inputs) {
      return new Variant[] {new Variant((Double) inputs[0].getValue() + (Double) inputs[1].getValue())};
    }
  }
}
