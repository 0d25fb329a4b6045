BEGIN TRANSACTION;
CREATE TABLE anubis_meta (
	name VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "anubis_meta" VALUES('schema','1');
CREATE TABLE defect_benchmarks (
	defect_id INTEGER NOT NULL, 
	benchmark TEXT NOT NULL, 
	PRIMARY KEY (defect_id, benchmark), 
	FOREIGN KEY(defect_id) REFERENCES defects (id) ON DELETE CASCADE
);
INSERT INTO "defect_benchmarks" VALUES(1,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(1,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(2,'choices.py::test_network_loopback_0');
INSERT INTO "defect_benchmarks" VALUES(2,'choices.py::test_network_loopback_1');
INSERT INTO "defect_benchmarks" VALUES(3,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(3,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(4,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(4,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(5,'choices.py::test_network_loopback_0');
INSERT INTO "defect_benchmarks" VALUES(5,'choices.py::test_network_loopback_2');
INSERT INTO "defect_benchmarks" VALUES(6,'choices.py::test_network_loopback_0');
INSERT INTO "defect_benchmarks" VALUES(6,'choices.py::test_network_loopback_2');
INSERT INTO "defect_benchmarks" VALUES(7,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(7,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(8,'choices.py::test_network_loopback_0');
INSERT INTO "defect_benchmarks" VALUES(8,'choices.py::test_network_loopback_2');
INSERT INTO "defect_benchmarks" VALUES(9,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(10,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(10,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(11,'choices.py::test_network_loopback_0');
INSERT INTO "defect_benchmarks" VALUES(11,'choices.py::test_network_loopback_2');
INSERT INTO "defect_benchmarks" VALUES(12,'choices.py::test_storage_disk_0');
INSERT INTO "defect_benchmarks" VALUES(13,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(13,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(14,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(15,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(15,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(16,'choices.py::test_storage_disk_0');
INSERT INTO "defect_benchmarks" VALUES(16,'choices.py::test_storage_disk_1');
INSERT INTO "defect_benchmarks" VALUES(17,'choices.py::test_storage_disk_0');
INSERT INTO "defect_benchmarks" VALUES(17,'choices.py::test_storage_disk_1');
INSERT INTO "defect_benchmarks" VALUES(18,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(18,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(19,'choices.py::test_storage_disk_0');
INSERT INTO "defect_benchmarks" VALUES(20,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(20,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(21,'choices.py::test_storage_disk_0');
INSERT INTO "defect_benchmarks" VALUES(22,'choices.py::test_network_loopback_0');
INSERT INTO "defect_benchmarks" VALUES(22,'choices.py::test_network_loopback_1');
INSERT INTO "defect_benchmarks" VALUES(23,'choices.py::test_network_loopback_1');
INSERT INTO "defect_benchmarks" VALUES(23,'choices.py::test_network_loopback_2');
INSERT INTO "defect_benchmarks" VALUES(24,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(24,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(25,'choices.py::test_storage_disk_1');
INSERT INTO "defect_benchmarks" VALUES(26,'choices.py::test_storage_disk_1');
INSERT INTO "defect_benchmarks" VALUES(27,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(27,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(28,'choices.py::test_network_loopback_0');
INSERT INTO "defect_benchmarks" VALUES(29,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(29,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(30,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(31,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(32,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(32,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(33,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(33,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(34,'choices.py::test_network_loopback_1');
INSERT INTO "defect_benchmarks" VALUES(35,'choices.py::test_network_loopback_1');
INSERT INTO "defect_benchmarks" VALUES(35,'choices.py::test_network_loopback_2');
INSERT INTO "defect_benchmarks" VALUES(36,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(36,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(37,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(38,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(38,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(39,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(40,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(41,'choices.py::test_network_loopback_2');
INSERT INTO "defect_benchmarks" VALUES(42,'choices.py::test_storage_disk_0');
INSERT INTO "defect_benchmarks" VALUES(42,'choices.py::test_storage_disk_1');
INSERT INTO "defect_benchmarks" VALUES(43,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(44,'choices.py::test_storage_disk_0');
INSERT INTO "defect_benchmarks" VALUES(45,'choices.py::test_training_step_0');
INSERT INTO "defect_benchmarks" VALUES(45,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(46,'choices.py::test_network_loopback_1');
INSERT INTO "defect_benchmarks" VALUES(47,'choices.py::test_training_step_1');
INSERT INTO "defect_benchmarks" VALUES(48,'choices.py::test_accelerator_memory_0');
INSERT INTO "defect_benchmarks" VALUES(48,'choices.py::test_accelerator_memory_1');
INSERT INTO "defect_benchmarks" VALUES(49,'choices.py::test_network_loopback_0');
INSERT INTO "defect_benchmarks" VALUES(49,'choices.py::test_network_loopback_1');
INSERT INTO "defect_benchmarks" VALUES(50,'choices.py::test_accelerator_memory_0');
CREATE TABLE defects (
	id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	run_id INTEGER, 
	hardware_class TEXT DEFAULT '' NOT NULL, 
	found DOUBLE NOT NULL, 
	component TEXT DEFAULT '' NOT NULL, 
	kind TEXT DEFAULT '' NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	closed DOUBLE, 
	note TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE, 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE SET NULL
);
INSERT INTO "defects" VALUES(1,4,NULL,'',1776408368.0,'training.step','gpu','confirmed',1776408368.0,'');
INSERT INTO "defects" VALUES(2,16,NULL,'',1775457914.0,'network.loopback','nic','confirmed',1775457914.0,'');
INSERT INTO "defects" VALUES(3,19,NULL,'',1776300124.0,'training.step','gpu','false alarm',1780272000.0,'a loose cable');
INSERT INTO "defects" VALUES(4,16,NULL,'',1775427542.0,'training.step','gpu','confirmed',1775427542.0,'');
INSERT INTO "defects" VALUES(5,12,NULL,'',1778015469.0,'network.loopback','nic','confirmed',1778015469.0,'');
INSERT INTO "defects" VALUES(6,7,NULL,'',1777480688.0,'network.loopback','nic','confirmed',1777480688.0,'');
INSERT INTO "defects" VALUES(7,15,NULL,'',1779788511.0,'training.step','gpu','confirmed',1779788511.0,'');
INSERT INTO "defects" VALUES(8,9,NULL,'',1774399419.0,'network.loopback','nic','confirmed',1774399419.0,'');
INSERT INTO "defects" VALUES(9,18,NULL,'',1778698649.0,'accelerator.memory','gpu-memory','confirmed',1778698649.0,'');
INSERT INTO "defects" VALUES(10,3,NULL,'',1775130675.0,'accelerator.memory','gpu-memory','confirmed',1775130675.0,'');
INSERT INTO "defects" VALUES(11,14,NULL,'',1774130735.0,'network.loopback','nic','confirmed',1774130735.0,'');
INSERT INTO "defects" VALUES(12,14,NULL,'',1773051122.0,'storage.disk','disk','confirmed',1773051122.0,'');
INSERT INTO "defects" VALUES(13,3,NULL,'',1777630791.0,'accelerator.memory','gpu-memory','confirmed',1777630791.0,'');
INSERT INTO "defects" VALUES(14,1,NULL,'',1772756002.0,'training.step','gpu','confirmed',1772756002.0,'');
INSERT INTO "defects" VALUES(15,20,NULL,'',1775058060.0,'accelerator.memory','gpu-memory','confirmed',1775058060.0,'');
INSERT INTO "defects" VALUES(16,3,NULL,'',1775705113.0,'storage.disk','disk','confirmed',1775705113.0,'');
INSERT INTO "defects" VALUES(17,12,NULL,'',1773172577.0,'storage.disk','disk','confirmed',1773172577.0,'');
INSERT INTO "defects" VALUES(18,18,NULL,'',1774392492.0,'training.step','gpu','confirmed',1774392492.0,'');
INSERT INTO "defects" VALUES(19,3,NULL,'',1773173533.0,'storage.disk','disk','confirmed',1773173533.0,'');
INSERT INTO "defects" VALUES(20,6,NULL,'',1776283431.0,'training.step','gpu','confirmed',1776283431.0,'');
INSERT INTO "defects" VALUES(21,2,NULL,'',1774297385.0,'storage.disk','disk','confirmed',1774297385.0,'');
INSERT INTO "defects" VALUES(22,12,NULL,'',1774097587.0,'network.loopback','nic','confirmed',1774097587.0,'');
INSERT INTO "defects" VALUES(23,13,NULL,'',1779050482.0,'network.loopback','nic','confirmed',1779050482.0,'');
INSERT INTO "defects" VALUES(24,4,NULL,'',1777478954.0,'training.step','gpu','confirmed',1777478954.0,'');
INSERT INTO "defects" VALUES(25,18,NULL,'',1774315936.0,'storage.disk','disk','confirmed',1774315936.0,'');
INSERT INTO "defects" VALUES(26,1,NULL,'',1775982743.0,'storage.disk','disk','confirmed',1775982743.0,'');
INSERT INTO "defects" VALUES(27,3,NULL,'',1779397814.0,'accelerator.memory','gpu-memory','confirmed',1779397814.0,'');
INSERT INTO "defects" VALUES(28,13,NULL,'',1779865177.0,'network.loopback','nic','confirmed',1779865177.0,'');
INSERT INTO "defects" VALUES(29,16,NULL,'',1776366932.0,'training.step','gpu','confirmed',1776366932.0,'');
INSERT INTO "defects" VALUES(30,6,NULL,'',1779375482.0,'training.step','gpu','confirmed',1779375482.0,'');
INSERT INTO "defects" VALUES(31,1,NULL,'',1773127383.0,'accelerator.memory','gpu-memory','confirmed',1773127383.0,'');
INSERT INTO "defects" VALUES(32,9,NULL,'',1777932411.0,'training.step','gpu','confirmed',1777932411.0,'');
INSERT INTO "defects" VALUES(33,5,NULL,'',1776270697.0,'accelerator.memory','gpu-memory','confirmed',1776270697.0,'');
INSERT INTO "defects" VALUES(34,11,NULL,'',1772568009.0,'network.loopback','nic','confirmed',1772568009.0,'');
INSERT INTO "defects" VALUES(35,15,NULL,'',1773292002.0,'network.loopback','nic','confirmed',1773292002.0,'');
INSERT INTO "defects" VALUES(36,4,NULL,'',1776499381.0,'accelerator.memory','gpu-memory','confirmed',1776499381.0,'');
INSERT INTO "defects" VALUES(37,13,NULL,'',1774380223.0,'accelerator.memory','gpu-memory','confirmed',1774380223.0,'');
INSERT INTO "defects" VALUES(38,1,NULL,'',1774658648.0,'accelerator.memory','gpu-memory','confirmed',1774658648.0,'');
INSERT INTO "defects" VALUES(39,4,NULL,'',1779642438.0,'accelerator.memory','gpu-memory','confirmed',1779642438.0,'');
INSERT INTO "defects" VALUES(40,19,NULL,'',1774726371.0,'training.step','gpu','confirmed',1774726371.0,'');
INSERT INTO "defects" VALUES(41,16,NULL,'',1774285888.0,'network.loopback','nic','confirmed',1774285888.0,'');
INSERT INTO "defects" VALUES(42,5,NULL,'',1776506239.0,'storage.disk','disk','confirmed',1776506239.0,'');
INSERT INTO "defects" VALUES(43,5,NULL,'',1775731582.0,'training.step','gpu','confirmed',1775731582.0,'');
INSERT INTO "defects" VALUES(44,12,NULL,'',1772885971.0,'storage.disk','disk','confirmed',1772885971.0,'');
INSERT INTO "defects" VALUES(45,5,NULL,'',1774640246.0,'training.step','gpu','confirmed',1774640246.0,'');
INSERT INTO "defects" VALUES(46,5,NULL,'',1779796566.0,'network.loopback','nic','confirmed',1779796566.0,'');
INSERT INTO "defects" VALUES(47,5,NULL,'',1773078514.0,'training.step','gpu','confirmed',1773078514.0,'');
INSERT INTO "defects" VALUES(48,13,NULL,'',1775870520.0,'accelerator.memory','gpu-memory','confirmed',1775870520.0,'');
INSERT INTO "defects" VALUES(49,3,NULL,'',1775784203.0,'network.loopback','nic','confirmed',1775784203.0,'');
INSERT INTO "defects" VALUES(50,21,NULL,'',1780044216.0,'accelerator.memory','gpu-memory','confirmed',1780044216.0,'');
CREATE TABLE durations (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	benchmark TEXT DEFAULT '' NOT NULL, 
	seconds DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE incidents (
	id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	started DOUBLE NOT NULL, 
	duration DOUBLE, 
	component TEXT DEFAULT '' NOT NULL, 
	note TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (node_id, kind, started), 
	FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE
);
INSERT INTO "incidents" VALUES(1,8,'nic',1772496000.0,7200.0,'network.loopback','flapping');
INSERT INTO "incidents" VALUES(2,7,'gpu',1772306092.0,11808.0,'','');
INSERT INTO "incidents" VALUES(3,7,'disk',1774279541.0,2160.0,'','');
INSERT INTO "incidents" VALUES(4,7,'nic',1774712684.0,9972.0,'','');
INSERT INTO "incidents" VALUES(5,7,'nic',1776310483.0,6480.0,'','');
INSERT INTO "incidents" VALUES(6,7,'gpu-memory',1777712467.0,8640.0,'','');
INSERT INTO "incidents" VALUES(7,7,'nic',1778302184.0,11016.0,'','');
INSERT INTO "incidents" VALUES(8,7,'nic',1778664721.0,13356.0,'','');
INSERT INTO "incidents" VALUES(9,7,'nic',1779667833.0,11412.0,'','');
INSERT INTO "incidents" VALUES(10,7,'disk',1779719431.0,9576.0,'','');
INSERT INTO "incidents" VALUES(11,7,'nic',1779813071.0,14040.0,'','');
INSERT INTO "incidents" VALUES(12,7,'nic',1779816754.0,13896.0,'','');
INSERT INTO "incidents" VALUES(13,7,'nic',1779942103.0,5436.0,'','');
INSERT INTO "incidents" VALUES(14,5,'nic',1772167570.0,4104.0,'','');
INSERT INTO "incidents" VALUES(15,5,'nic',1774558826.0,13968.0,'','');
INSERT INTO "incidents" VALUES(16,5,'gpu',1776108415.0,2088.0,'','');
INSERT INTO "incidents" VALUES(17,5,'nic',1776478887.0,5112.0,'','');
INSERT INTO "incidents" VALUES(18,5,'disk',1776757613.0,9180.0,'','');
INSERT INTO "incidents" VALUES(19,5,'gpu',1777384040.0,2628.0,'','');
INSERT INTO "incidents" VALUES(20,5,'gpu',1777687511.0,7.8480000000000009093e+03,'','');
INSERT INTO "incidents" VALUES(21,5,'gpu-memory',1777949818.0,7740.0,'','');
INSERT INTO "incidents" VALUES(22,5,'gpu',1778083724.0,14076.0,'','');
INSERT INTO "incidents" VALUES(23,5,'gpu',1778099713.0,12456.0,'','');
INSERT INTO "incidents" VALUES(24,5,'gpu-memory',1778112315.0,6408.0,'','');
INSERT INTO "incidents" VALUES(25,5,'nic',1778709498.0,7488.0,'','');
INSERT INTO "incidents" VALUES(26,5,'disk',1779559794.0,13824.0,'','');
INSERT INTO "incidents" VALUES(27,5,'nic',1779711032.0,13500.0,'','');
INSERT INTO "incidents" VALUES(28,3,'gpu',1771923808.0,13032.0,'','');
INSERT INTO "incidents" VALUES(29,3,'gpu-memory',1772123478.0,3168.0,'','');
INSERT INTO "incidents" VALUES(30,3,'gpu',1773077270.0,12636.0,'','');
INSERT INTO "incidents" VALUES(31,3,'nic',1773103065.0,4428.0,'','');
INSERT INTO "incidents" VALUES(32,3,'gpu',1773600207.0,13356.0,'','');
INSERT INTO "incidents" VALUES(33,3,'disk',1773887369.0,2952.0,'','');
INSERT INTO "incidents" VALUES(34,3,'gpu',1774687954.0,4.03200000000000045473e+03,'','');
INSERT INTO "incidents" VALUES(35,3,'nic',1774744233.0,10872.0,'','');
INSERT INTO "incidents" VALUES(36,3,'gpu-memory',1775000015.0,3852.0,'','');
INSERT INTO "incidents" VALUES(37,3,'disk',1775034417.0,8532.0,'','');
INSERT INTO "incidents" VALUES(38,3,'nic',1775394316.0,11124.0,'','');
INSERT INTO "incidents" VALUES(39,3,'gpu',1775685546.0,7.52399999999999909063e+03,'','');
INSERT INTO "incidents" VALUES(40,3,'nic',1776064159.0,14148.0,'','');
INSERT INTO "incidents" VALUES(41,3,'gpu-memory',1776767114.0,6012.0,'','');
INSERT INTO "incidents" VALUES(42,3,'disk',1776927478.0,13752.0,'','');
INSERT INTO "incidents" VALUES(43,3,'gpu-memory',1777615451.0,3132.0,'','');
INSERT INTO "incidents" VALUES(44,3,'nic',1778009534.0,2556.0,'','');
INSERT INTO "incidents" VALUES(45,3,'nic',1778386819.0,7.52399999999999909063e+03,'','');
INSERT INTO "incidents" VALUES(46,9,'disk',1772953748.0,7.52399999999999909063e+03,'','');
INSERT INTO "incidents" VALUES(47,9,'gpu',1773416673.0,7.8480000000000009093e+03,'','');
INSERT INTO "incidents" VALUES(48,9,'gpu-memory',1773654399.0,13176.0,'','');
INSERT INTO "incidents" VALUES(49,9,'disk',1773736938.0,13896.0,'','');
INSERT INTO "incidents" VALUES(50,9,'gpu-memory',1774418519.0,12744.0,'','');
INSERT INTO "incidents" VALUES(51,9,'gpu-memory',1774555789.0,5220.0,'','');
INSERT INTO "incidents" VALUES(52,9,'disk',1775608727.0,6336.0,'','');
INSERT INTO "incidents" VALUES(53,9,'gpu',1776674478.0,10548.0,'','');
INSERT INTO "incidents" VALUES(54,9,'gpu',1777428369.0,6372.0,'','');
INSERT INTO "incidents" VALUES(55,9,'gpu',1778270930.0,12312.0,'','');
INSERT INTO "incidents" VALUES(56,9,'gpu',1778483607.0,13860.0,'','');
INSERT INTO "incidents" VALUES(57,9,'nic',1778770888.0,9108.0,'','');
INSERT INTO "incidents" VALUES(58,9,'disk',1778778939.0,11556.0,'','');
INSERT INTO "incidents" VALUES(59,9,'gpu',1779051538.0,7632.0,'','');
INSERT INTO "incidents" VALUES(60,18,'gpu',1774334226.0,6192.0,'','');
INSERT INTO "incidents" VALUES(61,18,'gpu-memory',1777011767.0,6228.0,'','');
INSERT INTO "incidents" VALUES(62,19,'gpu-memory',1776918483.0,14112.0,'','');
INSERT INTO "incidents" VALUES(63,13,'disk',1773524420.0,14148.0,'','');
INSERT INTO "incidents" VALUES(64,13,'gpu',1774098448.0,13608.0,'','');
INSERT INTO "incidents" VALUES(65,13,'nic',1775779699.0,10872.0,'','');
INSERT INTO "incidents" VALUES(66,13,'nic',1779176886.0,9576.0,'','');
INSERT INTO "incidents" VALUES(67,12,'gpu-memory',1773515376.0,5616.0,'','');
INSERT INTO "incidents" VALUES(68,12,'gpu',1775603651.0,10872.0,'','');
INSERT INTO "incidents" VALUES(69,12,'nic',1775676255.0,9180.0,'','');
INSERT INTO "incidents" VALUES(70,12,'nic',1778212157.0,4572.0,'','');
INSERT INTO "incidents" VALUES(71,17,'nic',1774215169.0,14220.0,'','');
INSERT INTO "incidents" VALUES(72,4,'nic',1772101713.0,3204.0,'','');
INSERT INTO "incidents" VALUES(73,11,'disk',1773340279.0,2232.0,'','');
INSERT INTO "incidents" VALUES(74,11,'gpu-memory',1774963146.0,10152.0,'','');
INSERT INTO "incidents" VALUES(75,11,'nic',1775156765.0,4788.0,'','');
INSERT INTO "incidents" VALUES(76,1,'gpu-memory',1771633712.0,13788.0,'','');
INSERT INTO "incidents" VALUES(77,1,'nic',1776654244.0,10476.0,'','');
INSERT INTO "incidents" VALUES(78,1,'nic',1778708145.0,8712.0,'','');
INSERT INTO "incidents" VALUES(79,1,'gpu',1779637770.0,8676.0,'','');
INSERT INTO "incidents" VALUES(80,14,'gpu',1773886098.0,12096.0,'','');
INSERT INTO "incidents" VALUES(81,14,'disk',1775294020.0,9900.0,'','');
INSERT INTO "incidents" VALUES(82,14,'nic',1776489325.0,3780.0,'','');
INSERT INTO "incidents" VALUES(83,14,'gpu-memory',1777739900.0,13860.0,'','');
INSERT INTO "incidents" VALUES(84,16,'gpu',1774063426.0,12132.0,'','');
INSERT INTO "incidents" VALUES(85,16,'gpu-memory',1776872376.0,3168.0,'','');
INSERT INTO "incidents" VALUES(86,16,'disk',1779034824.0,8604.0,'','');
INSERT INTO "incidents" VALUES(87,16,'disk',1780055279.0,6552.0,'','');
INSERT INTO "incidents" VALUES(88,6,'gpu',1772297152.0,7.8480000000000009093e+03,'','');
INSERT INTO "incidents" VALUES(89,6,'gpu-memory',1775490559.0,13896.0,'','');
INSERT INTO "incidents" VALUES(90,15,'gpu',1773980015.0,11124.0,'','');
INSERT INTO "incidents" VALUES(91,15,'gpu',1774907490.0,7020.0,'','');
INSERT INTO "incidents" VALUES(92,15,'gpu',1775903899.0,7.99200000000000090969e+03,'','');
INSERT INTO "incidents" VALUES(93,15,'gpu-memory',1776778519.0,2088.0,'','');
INSERT INTO "incidents" VALUES(94,15,'gpu-memory',1779575242.0,4896.0,'','');
INSERT INTO "incidents" VALUES(95,15,'nic',1779680989.0,12204.0,'','');
INSERT INTO "incidents" VALUES(96,15,'disk',1779715440.0,8856.0,'','');
INSERT INTO "incidents" VALUES(97,10,'nic',1773298611.0,4896.0,'','');
INSERT INTO "incidents" VALUES(98,10,'nic',1774106147.0,10908.0,'','');
INSERT INTO "incidents" VALUES(99,10,'gpu-memory',1774978335.0,9468.0,'','');
INSERT INTO "incidents" VALUES(100,10,'disk',1776646689.0,12888.0,'','');
INSERT INTO "incidents" VALUES(101,2,'nic',1771674262.0,5580.0,'','');
INSERT INTO "incidents" VALUES(102,2,'gpu',1773650643.0,9540.0,'','');
INSERT INTO "incidents" VALUES(103,2,'nic',1777056714.0,7668.0,'','');
INSERT INTO "incidents" VALUES(104,2,'disk',1778217703.0,3456.0,'','');
INSERT INTO "incidents" VALUES(105,2,'disk',1778225065.0,7.52399999999999909063e+03,'','');
INSERT INTO "incidents" VALUES(106,20,'disk',1777305177.0,4212.0,'','');
INSERT INTO "incidents" VALUES(107,20,'gpu-memory',1778760692.0,9288.0,'','');
INSERT INTO "incidents" VALUES(108,21,'gpu-memory',1779572132.0,12636.0,'','');
INSERT INTO "incidents" VALUES(109,9,'nic',1775088000.0,5400.0,'','with a unit');
CREATE TABLE nodes (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	hardware_class TEXT DEFAULT '' NOT NULL, 
	since DOUBLE NOT NULL, 
	attributes TEXT DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "nodes" VALUES(1,'n12','',1771633712.0,'{}');
INSERT INTO "nodes" VALUES(2,'n18','',1771674262.0,'{}');
INSERT INTO "nodes" VALUES(3,'n03','',1771923808.0,'{}');
INSERT INTO "nodes" VALUES(4,'n10','',1772101713.0,'{}');
INSERT INTO "nodes" VALUES(5,'n02','',1772167570.0,'{}');
INSERT INTO "nodes" VALUES(6,'n15','',1772297152.0,'{}');
INSERT INTO "nodes" VALUES(7,'n01','',1772306092.0,'{}');
INSERT INTO "nodes" VALUES(8,'lab-a','',1772496000.0,'{}');
INSERT INTO "nodes" VALUES(9,'n04','',1772953748.0,'{}');
INSERT INTO "nodes" VALUES(10,'n17','',1773298611.0,'{}');
INSERT INTO "nodes" VALUES(11,'n11','',1773340279.0,'{}');
INSERT INTO "nodes" VALUES(12,'n08','',1773515376.0,'{}');
INSERT INTO "nodes" VALUES(13,'n07','',1773524420.0,'{}');
INSERT INTO "nodes" VALUES(14,'n13','',1773886098.0,'{}');
INSERT INTO "nodes" VALUES(15,'n16','',1773980015.0,'{}');
INSERT INTO "nodes" VALUES(16,'n14','',1774063426.0,'{}');
INSERT INTO "nodes" VALUES(17,'n09','',1774215169.0,'{}');
INSERT INTO "nodes" VALUES(18,'n05','',1774334226.0,'{}');
INSERT INTO "nodes" VALUES(19,'n06','',1776918483.0,'{}');
INSERT INTO "nodes" VALUES(20,'n19','',1777305177.0,'{}');
INSERT INTO "nodes" VALUES(21,'n20','',1779572132.0,'{}');
CREATE TABLE runs (
	id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	run TEXT NOT NULL, 
	hardware_class TEXT DEFAULT '' NOT NULL, 
	profile TEXT DEFAULT '' NOT NULL, 
	purpose TEXT DEFAULT '' NOT NULL, 
	started DOUBLE NOT NULL, 
	ended DOUBLE, 
	exit_status INTEGER, 
	decision TEXT DEFAULT '' NOT NULL, 
	headline TEXT DEFAULT '' NOT NULL, 
	baseline TEXT DEFAULT '' NOT NULL, 
	inventory TEXT DEFAULT '' NOT NULL, 
	path TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (node_id, run), 
	FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE
);
CREATE TABLE samples (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	benchmark TEXT DEFAULT '' NOT NULL, 
	metric TEXT DEFAULT '' NOT NULL, 
	unit TEXT DEFAULT '' NOT NULL, 
	better TEXT DEFAULT '' NOT NULL, 
	component TEXT DEFAULT '' NOT NULL, 
	device TEXT DEFAULT '' NOT NULL, 
	group_label TEXT DEFAULT '' NOT NULL, 
	count INTEGER NOT NULL, 
	sketch BLOB NOT NULL, 
	disturbance TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE states (
	id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	at DOUBLE NOT NULL, 
	state VARCHAR(32) NOT NULL, 
	note TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id) ON DELETE CASCADE
);
INSERT INTO "states" VALUES(1,21,1779840000.0,'removed','');
INSERT INTO "states" VALUES(2,20,1779840000.0,'drained','');
CREATE TABLE verdicts (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	benchmark TEXT DEFAULT '' NOT NULL, 
	metric TEXT DEFAULT '' NOT NULL, 
	unit TEXT DEFAULT '' NOT NULL, 
	component TEXT DEFAULT '' NOT NULL, 
	device TEXT DEFAULT '' NOT NULL, 
	scope TEXT DEFAULT '' NOT NULL, 
	outcome TEXT DEFAULT '' NOT NULL, 
	reason TEXT DEFAULT '' NOT NULL, 
	reference TEXT DEFAULT '' NOT NULL, 
	value DOUBLE, 
	expected DOUBLE, 
	similarity DOUBLE, 
	threshold DOUBLE, 
	text TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE INDEX states_by_node ON states (node_id, at);
CREATE INDEX runs_by_class ON runs (hardware_class, started);
CREATE INDEX samples_by_run ON samples (run_id);
CREATE INDEX verdicts_by_run ON verdicts (run_id);
CREATE INDEX durations_by_run ON durations (run_id);
CREATE INDEX defects_by_class ON defects (hardware_class, found);
COMMIT;
