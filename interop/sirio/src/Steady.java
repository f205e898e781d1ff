// Long-run probabilities of a PNPRO net by Sirio, unmodified: see interop/README.md.

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;
import javax.xml.parsers.DocumentBuilderFactory;
import org.oristool.models.gspn.chains.CTMCStationary;
import org.oristool.models.gspn.chains.DTMC;
import org.oristool.models.gspn.reachability.GSPNReachability;
import org.oristool.models.gspn.reachability.SPNState;
import org.oristool.models.pn.Priority;
import org.oristool.models.stpn.MarkingExpr;
import org.oristool.models.stpn.steady.RegSteadyState;
import org.oristool.models.stpn.trees.StochasticTransitionFeature;
import org.oristool.petrinet.Marking;
import org.oristool.petrinet.PetriNet;
import org.oristool.petrinet.Place;
import org.oristool.petrinet.Precondition;
import org.oristool.petrinet.Transition;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

public final class Steady {
    /** How long the machine is warmed, at least. */
    private static final double WARM_SECONDS = 3.0;

    /** A net and its first marking. */
    private record Net(PetriNet net, Marking first) { }

    /** A place, and the fewest tokens in it. */
    private record Condition(String place, int least) {
        static Condition of(String text) {
            String[] words = text.trim().split("\\s+");
            if (words.length != 3 || !words[1].equals(">=")) {
                throw new IllegalArgumentException("a condition is `place >= tokens`, not `" + text + "`");
            }
            return new Condition(words[0], Integer.parseInt(words[2]));
        }
    }

    private Steady() { }

    public static void main(String[] words) throws Exception {
        String model = null;
        String warm = null;
        String jobs = null;
        boolean generateOnly = false;
        long cap = Long.MAX_VALUE;
        List<String> conditions = new ArrayList<>();
        for (int i = 0; i < words.length; i++) {
            switch (words[i]) {
                case "--where" -> conditions.add(words[++i]);
                case "--warm" -> warm = words[++i];
                case "--jobs" -> jobs = words[++i];
                case "--cap" -> cap = Long.parseLong(words[++i]);
                case "--generate-only" -> generateOnly = true;
                default -> model = words[i];
            }
        }
        if (jobs != null) {
            for (String line : Files.readAllLines(Path.of(jobs))) {
                String[] parts = line.split("\t");
                byte[] bytes = Files.readAllBytes(Path.of(parts[0]));
                List<String> asked = Arrays.asList(parts).subList(1, parts.length);
                System.out.println(within(cap, () -> job(bytes, asked), "{\"refused\": \"not within the time\"}"));
            }
            System.exit(0);
        }
        if (warm != null) {
            warm(Files.readAllBytes(Path.of(warm)));
        }
        byte[] bytes = Files.readAllBytes(Path.of(model));
        List<String> wanted = conditions;
        boolean only = generateOnly;
        System.out.println(within(cap, () -> answer(bytes, wanted, only),
                String.format(Locale.ROOT, "{\"capped\": true, \"tangible\": 0, \"generate_seconds\": %d}", cap)));
        System.exit(0);
    }

    /** What `work` says, or `late` when it needs more than so many seconds. */
    private static String within(long seconds, Callable<String> work, String late) throws Exception {
        FutureTask<String> task = new FutureTask<>(work);
        Thread worker = new Thread(null, task, "solver", 1L << 29);
        worker.setDaemon(true);
        worker.start();
        try {
            return task.get(seconds, TimeUnit.SECONDS);
        } catch (TimeoutException timeout) {
            return late;
        } catch (ExecutionException failed) {
            throw new IllegalStateException(failed.getCause());
        }
    }

    /** Generates the chain of a small net until the compiler of the virtual machine has seen enough. */
    private static void warm(byte[] bytes) throws Exception {
        long began = System.nanoTime();
        while ((System.nanoTime() - began) / 1e9 < WARM_SECONDS) {
            generate(read(bytes));
        }
    }

    /**
     * The answer to one line of a file of jobs: what cannot be solved says why. The analysis of generalized nets of 2.0.3 removes
     * immediate transitions wrongly where a marking is left both through one and without; that by stochastic state classes does not,
     * and takes fixed times besides.
     */
    private static String job(byte[] bytes, List<String> conditions) throws Exception {
        try {
            Net net = read(bytes);
            boolean fixed = any(net, feature -> !feature.isEXP() && !feature.isIMM());
            if (!fixed && !any(net, StochasticTransitionFeature::isIMM)) {
                return answer(bytes, conditions, false);
            }
            String counted = fixed ? "" : String.format("\"tangible\": %d, ", generate(net).probsGraph().nodes().size());
            Map<Marking, BigDecimal> shares = RegSteadyState.builder().build().compute(net.net, net.first).getSteadyState();
            return String.format(Locale.ROOT, "{%s\"values\": [%s]}", counted, values(shares, conditions));
        } catch (RuntimeException refused) {
            return String.format("{\"refused\": \"%s\"}", String.valueOf(refused).replaceAll("[\"\\\\\\s]+", " "));
        }
    }

    private static boolean any(Net net, Predicate<StochasticTransitionFeature> wanted) {
        return net.net.getTransitions().stream().anyMatch(it -> wanted.test(it.getFeature(StochasticTransitionFeature.class)));
    }

    private static String answer(byte[] bytes, List<String> conditions, boolean generateOnly) throws Exception {
        long began = System.nanoTime();
        DTMC<SPNState> chain = generate(read(bytes));
        double generated = (System.nanoTime() - began) / 1e9;
        int tangible = chain.probsGraph().nodes().size();
        String told = String.format(Locale.ROOT, "\"tangible\": %d, \"generate_seconds\": %.6f", tangible, generated);
        if (generateOnly) {
            return "{" + told + "}";
        }
        Map<Marking, Double> shares = CTMCStationary.<Marking, SPNState>builder().epsilon(0.0).build().apply(chain);
        String values = values(shares, conditions);
        double seconds = (System.nanoTime() - began) / 1e9;
        return String.format(Locale.ROOT, "{%s, \"seconds\": %.6f, \"values\": [%s]}", told, seconds, values);
    }

    private static String values(Map<Marking, ? extends Number> shares, List<String> conditions) {
        List<String> values = new ArrayList<>();
        for (String condition : conditions) {
            Condition wanted = Condition.of(condition);
            double sum = 0.0;
            for (Map.Entry<Marking, ? extends Number> share : shares.entrySet()) {
                sum += share.getKey().getTokens(wanted.place) >= wanted.least ? share.getValue().doubleValue() : 0.0;
            }
            values.add(Double.toString(sum));
        }
        return String.join(", ", values);
    }

    private static DTMC<SPNState> generate(Net net) {
        return GSPNReachability.builder().build().compute(net.net, net.first);
    }

    private static Net read(byte[] bytes) throws Exception {
        var document = DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new ByteArrayInputStream(bytes));
        PetriNet net = new PetriNet();
        Marking first = new Marking();
        for (Element element : elements(document.getElementsByTagName("place"))) {
            Place place = net.addPlace(element.getAttribute("name"));
            int tokens = Integer.parseInt(element.getAttribute("marking"));
            // A place with no tokens is another marking there than a place that is not in it.
            if (tokens > 0) {
                first.addTokens(place, tokens);
            }
        }
        NodeList transitions = document.getElementsByTagName("transition");
        for (Element element : elements(transitions)) {
            net.addTransition(element.getAttribute("name"));
        }
        for (Element element : elements(document.getElementsByTagName("arc"))) {
            arc(net, element);
        }
        for (Element element : elements(transitions)) {
            timing(net, net.getTransition(element.getAttribute("name")), element);
        }
        return new Net(net, first);
    }

    private static List<Element> elements(NodeList nodes) {
        List<Element> found = new ArrayList<>();
        for (int i = 0; i < nodes.getLength(); i++) {
            found.add((Element) nodes.item(i));
        }
        return found;
    }

    private static void arc(PetriNet net, Element arc) {
        String tail = arc.getAttribute("tail");
        String head = arc.getAttribute("head");
        int count = arc.hasAttribute("mult") ? Integer.parseInt(arc.getAttribute("mult")) : 1;
        switch (arc.getAttribute("kind")) {
            case "INPUT" -> net.addPrecondition(net.getPlace(tail), net.getTransition(head), count);
            case "OUTPUT" -> net.addPostcondition(net.getTransition(tail), net.getPlace(head), count);
            case "INHIBITOR" -> net.addInhibitorArc(net.getPlace(tail), net.getTransition(head), count);
            default -> throw new IllegalArgumentException("an arc of another kind");
        }
    }

    /** What PNPRO calls the delay of an exponential transition is its rate; the rate of each server is multiplied in a marking. */
    private static void timing(PetriNet net, Transition transition, Element element) throws IOException {
        switch (element.getAttribute("type")) {
            case "EXP" -> {
                BigDecimal rate = new BigDecimal(element.getAttribute("delay"));
                String servers = element.getAttribute("nservers");
                int most = servers.equals("Infinite") ? Integer.MAX_VALUE : Integer.parseInt(servers);
                MarkingExpr degree = most == 1 ? MarkingExpr.ONE : degree(List.copyOf(net.getPreconditions(transition)), most);
                transition.addFeature(StochasticTransitionFeature.newExponentialInstance(rate, degree));
            }
            case "IMM" -> {
                MarkingExpr weight = MarkingExpr.of(Double.parseDouble(element.getAttribute("weight")));
                transition.addFeature(StochasticTransitionFeature.newDeterministicInstance(BigDecimal.ZERO, weight));
                transition.addFeature(new Priority(Integer.parseInt(element.getAttribute("priority"))));
            }
            case "GEN" -> {
                String delay = element.getAttribute("delay");
                if (!delay.startsWith("I[")) {
                    throw new IOException("of general times only fixed ones are read");
                }
                BigDecimal fixed = new BigDecimal(delay.substring(2, delay.length() - 1));
                transition.addFeature(StochasticTransitionFeature.newDeterministicInstance(fixed));
            }
            default -> throw new IOException("only fixed, exponential and immediate transitions are read");
        }
    }

    private static MarkingExpr degree(List<Precondition> inputs, int most) {
        return marking -> {
            int degree = most;
            for (Precondition input : inputs) {
                degree = Math.min(degree, marking.getTokens(input.getPlace()) / input.getMultiplicity());
            }
            return degree;
        };
    }
}
