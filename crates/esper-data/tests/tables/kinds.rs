//! What columns mean: kinds of actions and observations, usual names, ends, outcomes.

use super::*;

#[test]
fn lists_are_several_cells() {
    let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
    for name in [
        "arrays.pandas.parquet",
        "arrays.pandas.jsonl",
        "arrays.polars.parquet",
        "arrays.duckdb.parquet",
    ] {
        let data = open(&golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let metadata = data.metadata();
        assert_eq!(metadata.observation_space, real(2), "{name}");
        assert_eq!(metadata.action_space, real(1), "{name}");
        assert_eq!(metadata.fields.observation[1].name, "observations_1");
        // The answer to the last action is the last `next_observations`.
        let seen = Cells::Float(vec![0.5, 1.0, 1.5, 2.0, 9.5, 9.0, 2.5, 3.0, 8.5, 8.0]);
        assert_eq!(*data.observations(), seen, "{name}");
        assert_eq!(*data.actions(), Cells::Float(vec![0.25, -0.5, 1.0]));
        let ends = [data.end(0), data.end(1)].map(|end| (end.terminated, end.truncated));
        assert_eq!(ends, [(true, false), (false, true)], "{name}");
    }
}

#[test]
fn kinds_of_actions() {
    let log = |actions: [&str; 3]| {
        let [a, b, c] = actions;
        format!("episode,x,action\n0,1,{a}\n0,2,{b}\n1,3,{c}\n")
            .replace('\n', ",0\n")
            .replacen(",0", ",reward", 1)
    };
    let space = |actions, toml: &str| {
        let data = imported(&log(actions), toml)?;
        Ok::<_, String>((
            data.metadata().action_space.clone(),
            data.metadata().fields.action_value(&[1.0]),
        ))
    };
    let real = Space::Box { shape: vec![1], bounds: None };
    assert_eq!(space(["b", "a", "c"], "").unwrap(), (Space::Discrete { n: 3 }, Some("b".into())));
    assert_eq!(space(["7", "-3", "7"], "").unwrap(), (Space::Discrete { n: 2 }, Some(7.into())));
    let spelt = (Space::Discrete { n: 3 }, Some("1".into()));
    assert_eq!(space(["1.0", "0.0", "1"], "").unwrap(), spelt);
    assert_eq!(space(["True", "false", "true"], "").unwrap().1, Some(true.into()));
    assert_eq!(space(["yes", "no", "no"], "").unwrap().1, Some("yes".into()));
    assert_eq!(space(["None", "drug", "NA"], "").unwrap().0, Space::Discrete { n: 3 });
    assert_eq!(space(["0.5", "1", "2"], "").unwrap().0, real);
    assert_eq!(space(["1", "0", "2"], "[kinds]\naction = \"number\"").unwrap().0, real);
    assert!(
        space(["a", "", "b"], "").unwrap_err().contains("line 3: the action (`action`) is missing")
    );
    assert!(space(["1", "NA", "2"], "").unwrap_err().contains("is missing"));
    // Many whole numbers are numbers.
    let many: String = (0..400).map(|row| format!("{row},0,{},1\n", row * 7 % 300)).collect();
    let data = imported(&format!("episode,x,dose,reward\n{many}"), "action = [\"dose\"]").unwrap();
    assert_eq!(data.metadata().action_space, real);
}

#[test]
fn several_columns_of_actions() {
    let log = "episode,x,action_a,action_b,reward\n0,1,L,2,0\n0,2,R,1,1\n";
    let space = Space::MultiDiscrete { nvec: vec![2, 2] };
    assert_eq!(imported(log, "").unwrap().metadata().action_space, space);
    let data = imported(&log.replace('L', "0.5").replace('R', "1"), "").unwrap();
    assert_eq!(data.metadata().action_space, Space::Box { shape: vec![2], bounds: None });
    let error = imported(&log.replace(",2,0", ",2.5,0"), "").unwrap_err();
    assert!(error.contains("all numbers or all categories"), "{error}");
}

#[test]
fn kinds_of_observations() {
    let space = |columns: &str, rows: [&str; 2], toml: &str| {
        let [a, b] = rows;
        let log = format!("episode,action,reward,{columns}\n0,a,0,{a}\n1,b,1,{b}\n");
        imported(&log, toml).map(|data| data.metadata().observation_space.clone())
    };
    let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
    assert_eq!(space("a,b", ["1,2", "3,4.5"], "").unwrap(), real(2));
    assert_eq!(space("a,b", ["x,2", "y,4"], "").unwrap().to_string(), "Tuple(Discrete(2), Box(1))");
    assert_eq!(space("a", ["x", "y"], "").unwrap(), Space::Discrete { n: 2 });
    assert_eq!(
        space("a,b", ["x,u", "y,u"], "").unwrap(),
        Space::MultiDiscrete { nvec: vec![2, 1] }
    );
    assert_eq!(space("a", ["yes", "no"], "").unwrap(), real(1));
    assert_eq!(
        space("a", ["1", "2"], "[kinds]\na = \"category\"").unwrap(),
        Space::Discrete { n: 2 }
    );
    assert_eq!(space("a,b", ["1,", "2,"], "").unwrap(), real(1));
    assert!(space("a", ["1", "x"], "[kinds]\na = \"number\"").unwrap_err().contains("line 3"));
    assert!(space("a", ["inf", "1"], "").unwrap_err().contains("line 2"));
    assert!(space("a", ["1e300", "1"], "").unwrap_err().contains("32 bits"));
    assert!(space("a", ["", ""], "").unwrap_err().contains("empty"));
}

#[test]
fn what_is_missing_constant_or_rounded_is_said() {
    let log = "episode,t,x,y,id,action,reward\n0,0,NA,k,123456789,a,0\n0,1,3,,123456790,b,1\n1,0,5,k,123456791,a,1\n";
    let data = imported(log, "").unwrap();
    assert_eq!(data.metadata().fields.observation[0].kind, FieldKind::Number { fill: Some(4.0) });
    let said = notes(log, "").join("\n");
    for words in [
        "`x`: 1 of 3 values are missing; 4 stands",
        "`y`: 1 of 3 values are missing, which is a category",
        "`id`: whole numbers beyond 16,777,216 are rounded",
        "the last observation is repeated",
        "no column says how episodes end",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = notes("episode,x,action,reward\n0,3,a,0\n1,3,b,1\n", "").join("\n");
    assert!(said.contains("`x` is always 3") && said.contains("order of the file"), "{said}");
}

#[test]
fn one_outcome_an_episode() {
    for log in [
        "episode,t,x,action,reward\n0,0,1,a,\n0,1,2,b,5\n1,0,3,a,-1\n",
        "episode,t,x,action,reward\n0,0,1,a,5\n0,1,2,b,\n1,0,3,a,-1\n",
        "episode,t,x,action,outcome\n0,0,1,a,5\n0,1,2,b,5\n1,0,3,a,-1\n",
    ] {
        let data = imported(log, "").unwrap();
        assert_eq!(data.rewards(), [0.0, 5.0, -1.0], "{log}");
        assert!(notes(log, "").join("\n").contains("last step"), "{log}");
    }
    // The same in every row is a reward of steps where nothing is called an outcome.
    let log = "episode,t,x,action,reward\n0,0,1,a,5\n0,1,2,b,5\n1,0,3,a,-1\n";
    assert_eq!(imported(log, "").unwrap().rewards(), [5.0, 5.0, -1.0]);
    assert_eq!(imported(log, "reward_per = \"episode\"").unwrap().rewards(), [0.0, 5.0, -1.0]);
    let outcome = log.replace("reward", "outcome");
    assert_eq!(imported(&outcome, "reward_per = \"step\"").unwrap().rewards(), [5.0, 5.0, -1.0]);
    let differ = log.replace("1,2,b,5", "1,2,b,4");
    assert!(
        imported(&differ, "reward_per = \"episode\"").unwrap_err().contains("different outcomes")
    );
}

#[test]
fn ends_of_episodes() {
    let ends = |column: &str, last: [&str; 3], toml: &str| {
        let rows = last
            .iter()
            .enumerate()
            .map(|(at, last)| format!("{at},0,1,a,0,0\n{at},1,2,b,1,{last}\n"));
        let log = format!("episode,t,x,action,reward,{column}\n{}", rows.collect::<String>());
        let data = imported(&log, toml).unwrap();
        [0, 1, 2].map(|episode| (data.end(episode).terminated, data.end(episode).truncated))
    };
    let (ended, cut) = ((true, false), (false, true));
    assert_eq!(ends("done", ["1", "0", "1"], ""), [ended, cut, ended]);
    assert_eq!(ends("flag", ["yes", "True", "whatever"], "end = \"flag\""), [ended, ended, cut]);
    assert_eq!(ends("z", ["1", "0", "1"], ""), [ended; 3]);
    assert_eq!(ends("truncated", ["1", "0", "1"], ""), [cut, ended, cut]);
}

#[test]
fn usual_names_are_found() {
    for (header, toml) in [
        ("episode_id,timestamp,obs_a,obs_b,actions,rewards,terminated,behavior", ""),
        ("Trajectory,Step,State_1,State_2,Decision,R,Done,Policy", ""),
        ("patient_id,date,age,dose,treatment,reward,end,agent", ""),
        ("user id,time,a1,a2,action,payoff,terminal,behaviour", ""),
        (
            "k,w,a1,a2,u,v,e,z",
            "episode = \"k\"\ntime = \"w\"\naction = [\"u\"]\nreward = \"v\"\nend = \"e\"\nbehaviour = \"z\"",
        ),
    ] {
        let log = format!("{header}\ni,2024-01-02,1,2,up,1,0,me\ni,2024-01-01,3,4,down,0,1,me\n");
        let (_folder, paths) = files(&[("log.csv", log.as_bytes())]);
        let survey =
            survey(&paths, &mapping(toml)).unwrap_or_else(|error| panic!("{header}: {error}"));
        let data = survey.dataset(go_on).unwrap();
        assert_eq!(
            *data.observations(),
            Cells::Float(vec![3.0, 4.0, 1.0, 2.0, 1.0, 2.0]),
            "{header}"
        );
        assert_eq!(data.rewards(), [0.0, 1.0]);
        assert_eq!(data.behaviours(), ["me"]);
        assert_eq!(data.end(0), End { terminated: false, truncated: true }, "{header}");
        // What was found, said, gives the same.
        let again = import(&paths, &mapping(&survey.mapping().to_toml())).unwrap();
        assert_eq!(again, data, "{header}");
    }
}

#[test]
fn what_is_in_doubt_is_asked() {
    let log = |header: &str| {
        let row = header.split(',').map(|_| "1").collect::<Vec<_>>().join(",");
        format!("{header}\n{row}\n")
    };
    for (header, toml, words) in [
        (
            "session_id,user_id,x,action,reward",
            "",
            "`session_id`, `user_id`? Say so with --episode",
        ),
        ("episode,step,timestamp,x,action,reward", "", "`step`, `timestamp`? Say so with --time"),
        ("episode,x,action,treatment,reward", "", "`action`, `treatment`? Say so with --action"),
        ("episode,x,action,reward,outcome", "", "--reward"),
        ("episode,x,action,reward,done,terminal", "", "--end"),
        ("episode,x,action,reward,policy,agent", "", "--behaviour"),
        ("episode,state,age,action,reward", "", "is `state` the whole observation"),
        ("episode,state_a,obs_b,action,reward", "", "--observation"),
        (
            "x,action,reward",
            "",
            "no column says which episode a row belongs to; name it with --episode",
        ),
        ("episode,x,reward", "", "no column is the action; name it with --action"),
        ("episode,x,action", "", "no column is the reward; name it with --reward"),
        ("episode,action,reward", "", "no column is left to be the observation"),
        (
            "episode,x,action,reward",
            "observation = [\"y\"]",
            "there is no column `y` (--observation)",
        ),
        (
            "episode,x,action,reward",
            "observation = [\"action\"]\naction = [\"action\"]",
            "two things at once",
        ),
    ] {
        let (_folder, paths) = files(&[("log.csv", log(header).as_bytes())]);
        let error = import(&paths, &mapping(toml)).unwrap_err();
        assert!(matches!(error, DataError::Mapping { .. }), "{header}: {error}");
        assert!(error.to_string().contains(words), "{header}: {error}");
        // Opening it directly says where such options belong.
        if toml.is_empty() {
            let error = open(&paths[0]).unwrap_err().to_string();
            assert!(error.contains("esper import"), "{error}");
        }
    }
}

#[test]
fn what_is_left_out_is_nothing_to_decide_by() {
    let log = "Unnamed: 0,episode,obs_1,weather,return_to_go,action_prob,action,reward\n9,0,1,2,3,4,a,1\n8,1,2,3,4,5,b,2\n";
    let data = imported(log, "").unwrap();
    assert_eq!(data.metadata().observation_space, Space::Box { shape: vec![1], bounds: None });
    let said = notes(log, "").join("\n");
    assert!(said.contains("left out") && said.contains("`weather`"), "{said}");
}

/// What counts the rows of an episode under a usual name orders them, wherever it stands and whatever is beside it.
#[test]
fn visits_days_and_rounds_are_times() {
    for name in ["visit", "day", "round", "turn", "Timestamp", "time step"] {
        let log = format!(
            "patient,doctor,{name},age,treatment,outcome\np,A,2,50,rest,1\np,A,1,49,drug,\nq,B,1,9,rest,0\n"
        );
        let (_folder, paths) = files(&[("log.csv", log.as_bytes())]);
        let survey = survey(&paths, &Mapping::default()).unwrap();
        assert_eq!(survey.mapping().time.as_deref(), Some(name));
        assert_eq!(survey.mapping().observation, ["doctor", "age"]);
        let data = survey.dataset(go_on).unwrap();
        assert_eq!(data.observations().view().number(1), 49.0, "{name}: the first visit first");
    }
}

#[test]
fn too_many_actions_are_not_to_be_ignored() {
    let rows: String = (0..50).map(|row| format!("{row},1,a{row},1\n")).collect();
    let error = imported(&format!("episode,x,action,reward\n{rows}"), "").unwrap_err();
    assert!(error.contains("--action") && !error.contains("--ignore"), "{error}");
}
